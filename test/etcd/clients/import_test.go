package clients

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// importTimeout limits a command that copies tens of megabytes, on a busy machine.
const importTimeout = 5 * time.Minute

// sqlstore runs the command.
func sqlstore(t *testing.T, args ...string) result {
	t.Helper()
	return runWithin(t, importTimeout, "", launch.Binary(t), args...)
}

// importTargets returns empty databases of all kinds, as flags.
func importTargets(t *testing.T) map[string]string {
	return map[string]string{
		"sqlite":   "--data-dir=" + filepath.Join(t.TempDir(), "sqlite"),
		"postgres": "--datastore=" + pgserver.Database(t),
	}
}

// A store moves from etcd to SQLite and to Postgres, from there to the other one, and back to etcd. Each serves the
// same history, leases and hashes.
func TestImport(t *testing.T) {
	for name, compact := range map[string]int64{
		"not compacted": 0, "compacted": 20, "compacted at the last revision": 41,
	} {
		t.Run(name, func(t *testing.T) { importEverywhere(t, compact) })
	}
}

func importEverywhere(t *testing.T, compact int64) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	source := connect(t, etcd)
	writeHistory(t, source, compact)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", file).must(t)
	etcd.Kill()
	etcd.Restart(t) // it forgets the hash of the time before the compaction

	targets := importTargets(t)
	sqlstore(t, "import", "--from", file, targets["sqlite"]).must(t)
	sqlstore(t, "import", "--from", etcd.ClientURL(), "--work-dir", t.TempDir(), "--keep-cluster-id",
		targets["postgres"]).must(t)
	again := importTargets(t)
	for name, flag := range targets {
		sqlstore(t, "check", flag).must(t)
		server := launch.Start(t, launch.Config{Args: []string{flag}})
		compareStores(t, source, connect(t, server), compact)
		sqlstore(t, "import", "--from", server.ClientURL(), "--work-dir", t.TempDir(), again[name]).must(t)
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	// What was imported twice moves to the other kind of database, read as a database.
	last := importTargets(t)
	for name, other := range map[string]string{"sqlite": "postgres", "postgres": "sqlite"} {
		sqlstore(t, "import", "--from", databaseURL(again[name]), last[other]).must(t)
		server := launch.Start(t, launch.Config{Args: []string{last[other]}})
		target := connect(t, server)
		compareStores(t, source, target, compact)

		back := filepath.Join(t.TempDir(), "back.db")
		ctl(t, server.Endpoint(), "", "snapshot", "save", back).must(t)
		dir := filepath.Join(t.TempDir(), "restored")
		utl(t, "snapshot", "restore", back, "--data-dir", dir).must(t)
		compareStores(t, source, connect(t, launch.Start(t, servers.EtcdConfig(t, dir))), compact)

		put, err := target.kv.Put(t.Context(), &pb.PutRequest{Key: []byte("after")})
		if err != nil || put.Header.Revision != 42 {
			t.Errorf("first write after the moves: %v, %v; want revision 42", put, err)
		}
	}
}

// databaseURL turns the flag of a database into the URL of a source.
func databaseURL(flag string) string {
	if dsn, ok := strings.CutPrefix(flag, "--datastore="); ok {
		return dsn
	}
	return "sqlite://" + filepath.Join(strings.TrimPrefix(flag, "--data-dir="), "sqlstore.db")
}

func compareStores(t *testing.T, source, target services, compact int64) {
	t.Helper()
	compareHistory(t, source, target, compact)
	compareLeases(t, source, target)
	compareHashes(t, source, target, compact)
}

// A stopped etcd's data directory is a source. A running one's is not, and neither is a damaged file. Nothing is
// imported then.
func TestImportFiles(t *testing.T) {
	etcd := servers.Etcd(t)
	source := connect(t, etcd)
	writeHistory(t, source, 20)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", file).must(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	bare := whole[:len(whole)-32]
	for name, c := range map[string]struct{ from, message string }{
		"running":         {etcd.DataDir(), "is open in an etcd"},
		"missing":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"empty":           {write("db", nil), "truncated"},
		"truncated":       {write("db", whole[:len(whole)-1000]), "truncated"},
		"flipped":         {write("db", flipped), "does not match the checksum"},
		"half a database": {write("db", bare[:len(bare)/2]), "the source"},
		"text": {
			write("db", []byte(strings.Repeat("words to read ", 1<<10)[:8192])), "not a database of etcd",
		},
	} {
		dir := filepath.Join(t.TempDir(), "target")
		r := sqlstore(t, "import", "--from", c.from, "--data-dir", dir)
		if r.code == 0 || !strings.Contains(r.stderr, c.message) || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%s: exit code %d, %q; want %q", name, r.code, r.stderr, c.message)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the target was created", name)
		}
	}
	etcd.Kill() // asked to stop, it ends with the signal, which counts as a failure
	for name, from := range map[string]string{"stopped": etcd.DataDir(), "no checksum": write("db", bare)} {
		target := "--data-dir=" + filepath.Join(t.TempDir(), "target")
		out := sqlstore(t, "import", "--from", from, target).must(t)
		if !strings.Contains(out, "revision 41, compacted 20") {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// raisedRevision returns the data directory of an etcd that was restored from a backup with a higher revision, 1041.
func raisedRevision(t *testing.T) (dir string) {
	t.Helper()
	etcd := servers.Etcd(t)
	writeHistory(t, connect(t, etcd), 20)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	dir = filepath.Join(t.TempDir(), "restored")
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", file).must(t)
	utl(t, "snapshot", "restore", file, "--data-dir", dir, "--bump-revision", "1000", "--mark-compacted").must(t)
	return dir
}

// A backup that was restored into etcd with a higher revision has an entry that only says so.
func TestImportRaisedRevision(t *testing.T) {
	dir := raisedRevision(t)
	target := "--data-dir=" + filepath.Join(t.TempDir(), "target")
	out := sqlstore(t, "import", "--from", dir, target).must(t)
	if !strings.Contains(out, "revision 1041, compacted 1041") || !strings.Contains(out, "but for the empty entry") {
		t.Errorf("from the files: %q", out)
	}
	restored := launch.Start(t, servers.EtcdConfig(t, dir))
	if _, err := connect(t, restored).kv.Put(t.Context(), &pb.PutRequest{Key: []byte("after")}); err != nil {
		t.Fatal(err)
	}
	target = "--data-dir=" + filepath.Join(t.TempDir(), "target")
	out = sqlstore(t, "import", "--from", restored.ClientURL(), "--work-dir", t.TempDir(), target).must(t)
	if !strings.Contains(out, "revision 1042, compacted 1041") {
		t.Errorf("from the server: %q", out)
	}
	wantKeysOf(t, connect(t, restored), launch.Start(t, launch.Config{Args: []string{target}}))
}

// wantKeysOf compares the keys of a server with those of a source.
func wantKeysOf(t *testing.T, source services, server *launch.Server) {
	t.Helper()
	all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	want, err := source.kv.Range(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := connect(t, server).kv.Range(t.Context(), all); err != nil || !equal(
		&pb.RangeResponse{Kvs: got.Kvs, Count: got.Count}, &pb.RangeResponse{Kvs: want.Kvs, Count: want.Count},
	) {
		t.Errorf("%v, %v\nwant %v", got, err, want)
	}
}

// Users and roles move, and their passwords and rights hold.
func TestImportUsers(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync", "--bcrypt-cost", "4")
	endpoint := etcd.Endpoint()
	for _, c := range []string{
		"user add root:secret", "user grant-role root root", "role add reader",
		"role grant-permission reader read k/ --prefix", "user add ann:word", "user grant-role ann reader",
		"put k/1 one", "auth enable",
	} {
		ctl(t, endpoint, "", strings.Fields(c)...).must(t)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := sqlstore(t, "import", "--from", etcd.ClientURL(), "--work-dir", t.TempDir(), "--data-dir",
		filepath.Join(t.TempDir(), "refused")); r.code == 0 || !strings.Contains(r.stderr, "refuses the import") ||
		!strings.Contains(r.stderr, "role root") {
		t.Errorf("without a user: exit code %d, %q", r.code, r.stderr)
	}
	for name, target := range importTargets(t) {
		sqlstore(t, "import", "--from", etcd.ClientURL(), "--work-dir", t.TempDir(), "--user", "root",
			"--password-file", password, target).must(t)
		server := launch.Start(t, launch.Config{Args: []string{target}}).Endpoint()
		if got := ctl(t, server, "", "--user", "ann:word", "get", "k/1", "--print-value-only").must(t); got != "one\n" {
			t.Errorf("%s: ann reads %q", name, got)
		}
		for what, r := range map[string]result{
			"a write of ann's":  ctl(t, server, "", "--user", "ann:word", "put", "k/1", "two"),
			"a wrong password":  ctl(t, server, "", "--user", "ann:other", "get", "k/1"),
			"a read by nobody":  ctl(t, server, "", "get", "k/1"),
			"a read beyond her": ctl(t, server, "", "--user", "ann:word", "get", "l"),
		} {
			if r.code == 0 {
				t.Errorf("%s: %s succeeds", name, what)
			}
		}
	}
}

// A target with data, or one that a server serves, is refused, and does not change.
func TestImportRefusesTargets(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	writeHistory(t, connect(t, etcd), 0)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", file).must(t)
	for name, target := range importTargets(t) {
		server := launch.Start(t, launch.Config{Args: []string{target}})
		want := map[string]string{"sqlite": "in use", "postgres": "the replica"}[name]
		if r := sqlstore(t, "import", "--from", file, target); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s, served and empty: exit code %d, %q; want %q", name, r.code, r.stderr, want)
		}
		if put := ctl(t, server.Endpoint(), "", "put", "mine", "1").must(t); put != "OK\n" {
			t.Errorf("%s: %q", name, put)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		r := sqlstore(t, "import", "--from", file, target)
		if r.code == 0 || !strings.Contains(r.stderr, "holds data") {
			t.Errorf("%s, with data: exit code %d, %q", name, r.code, r.stderr)
		}
		server.Restart(t)
		if got := ctl(t, server.Endpoint(), "", "get", "", "--prefix").must(t); got != "mine\n1\n" {
			t.Errorf("%s holds %q", name, got)
		}
	}
}

// An import that is killed continues, and no server opens the database before it is finished.
func TestImportContinues(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	fill(t, connect(t, etcd))
	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, etcd.Endpoint(), "", "snapshot", "save", file).must(t)
	for name, target := range importTargets(t) {
		killed := killImport(t, file, target)
		if !killed {
			t.Fatalf("%s: the import ended before it was killed", name)
		}
		if r := sqlstore(t, "serve", target, "--listen-client-urls=http://127.0.0.1:0"); r.code == 0 ||
			!strings.Contains(r.stderr, "not finished") {
			t.Errorf("%s: a server over half an import: exit code %d, %q", name, r.code, r.stderr)
		}
		other := filepath.Join(t.TempDir(), "other.db")
		ctl(t, etcd.Endpoint(), "", "put", "more", name).must(t)
		ctl(t, etcd.Endpoint(), "", "snapshot", "save", other).must(t)
		if r := sqlstore(t, "import", "--from", other, target); r.code == 0 ||
			!strings.Contains(r.stderr, "another source") {
			t.Errorf("%s: another source: exit code %d, %q", name, r.code, r.stderr)
		}
		out := sqlstore(t, "import", "--from", file, target).must(t)
		if !strings.Contains(out, "5000 keys, 30000 rows") {
			t.Errorf("%s: %q", name, out)
		}
		sqlstore(t, "check", target).must(t)
	}
}

// fill writes 30,000 versions of 5,000 keys, 60 MB, in revisions up to 301.
func fill(t *testing.T, s services) {
	t.Helper()
	value := strings.Repeat("v", 2000)
	for i := range 30_000 / 100 {
		var ops []*pb.RequestOp
		for j := range 100 {
			ops = append(ops, put(fmt.Sprintf("k/%d", (i*100+j)%5000), value))
		}
		if _, err := s.kv.Txn(t.Context(), &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
	}
}

// killImport starts an import and kills it once it has begun to write. It reports whether the import was still
// running.
func killImport(t *testing.T, from string, flags ...string) bool {
	t.Helper()
	cmd := exec.Command(launch.Binary(t), append([]string{"import", "--from", from}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "writing: ") {
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, stderr)
	return cmd.Wait() != nil
}
