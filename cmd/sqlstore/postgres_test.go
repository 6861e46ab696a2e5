package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // clean-ups use it, too
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// secretive is a database whose owner has a password that occurs nowhere else.
type secretive struct {
	url    *url.URL
	secret string
}

func newSecretive(t *testing.T) secretive {
	t.Helper()
	dsn := pgserver.Database(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	role, secret := database+"_owner", "tell-nobody-"+database
	execute(t, dsn, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, secret),
		fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", database, role))
	t.Cleanup(func() {
		execute(t, dsn, "REASSIGN OWNED BY "+role+" TO CURRENT_USER", "DROP ROLE "+role)
	})
	u.User = url.UserPassword(role, secret)
	return secretive{u, secret}
}

func (s secretive) dsn() string { return s.url.String() }

// with returns the DSN with some parts replaced.
func (s secretive) with(change func(*url.URL)) string {
	u := *s.url
	change(&u)
	return u.String()
}

func (s secretive) passwordFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantNoPassword fails if the password is in text.
func (s secretive) wantNoPassword(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, s.secret) {
		t.Errorf("the password is in %s:\n%s", what, text)
	}
}

// Two processes that share a database are members of one cluster: writes on one can be read and watched on the other,
// and both report the same members and leader. Neither ever prints the password.
func TestReplicas(t *testing.T) {
	db := newSecretive(t)
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("datastore: "+db.dsn()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passwordless := db.with(func(u *url.URL) { u.User = url.User(u.User.Username()) })
	logs := []*log{newLog(), newLog(), newLog(), newLog()}
	replicas := []*launch.Server{
		launch.Start(t, launch.Config{Log: logs[0], Args: []string{"--name", "a", "--datastore", db.dsn()}}),
		launch.Start(t, launch.Config{
			Log: logs[1], Args: []string{"--name", "b"},
			Env: []string{"SQLSTORE_DATASTORE=" + db.dsn()},
		}),
		launch.Start(t, launch.Config{Log: logs[2], Args: []string{
			"--name", "c", "--config-file", config,
			"--datastore-max-connections", "4",
		}}),
		launch.Start(t, launch.Config{Log: logs[3], Args: []string{
			"--name", "d", "--datastore", passwordless, "--datastore-password-file", db.passwordFile(t, db.secret+"\n"),
		}}),
	}
	ctx := t.Context()
	var clients []*clientv3.Client
	for _, r := range replicas {
		clients = append(clients, connect(t, r.Endpoint()))
	}
	watch := clients[1].Watch(clientv3.WithRequireLeader(ctx), "k", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	for i, c := range clients {
		key := fmt.Sprintf("k%d", i)
		put, err := c.Put(ctx, key, "v")
		if err != nil {
			t.Fatal(err)
		}
		got, err := clients[(i+1)%len(clients)].Get(ctx, key)
		if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Header.Revision {
			t.Fatalf("%s on the next replica: %v, %v", key, got, err)
		}
		if seen := <-watch; len(seen.Events) != 1 || string(seen.Events[0].Kv.Key) != key {
			t.Fatalf("the watch saw %v, want %s", seen.Events, key)
		}
	}
	wantMembers(t, clients, replicas)
	long := strings.Repeat("k", 5000)
	for _, key := range []string{long + "a", long + "b", long} {
		if _, err := clients[0].Put(ctx, key, "v"); err != nil {
			t.Fatalf("a key of %d bytes: %v", len(key), err)
		}
	}
	first, err := clients[1].Get(ctx, long, clientv3.WithPrefix(), clientv3.WithLimit(2))
	if err != nil || first.Count != 3 || len(first.Kvs) != 2 || string(first.Kvs[0].Key) != long ||
		string(first.Kvs[1].Key) != long+"a" {
		t.Errorf("a page of long keys on another replica: %v, %v", first, err)
	}

	if err := os.WriteFile(config, []byte("datastore: "+strings.Replace(db.dsn(), "?", "x?", 1)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(replicas[2].PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	logs[2].wait(t, "cannot change while the server runs", `"datastore"`)
	for i, r := range replicas {
		for _, path := range []string{
			"/metrics", "/health", "/readyz?verbose", "/livez?verbose", "/status",
			"/status",
		} {
			body := page(t, r.MetricsURL()+path, http.StatusOK)
			db.wantNoPassword(t, path, body)
			if path == "/metrics" && !strings.Contains(body, `sqlstore_database_connections{state="idle"}`) {
				t.Errorf("no connections are reported in\n%s", body)
			}
		}
		if entries, err := os.ReadDir(r.DataDir()); err == nil && len(entries) > 0 {
			t.Errorf("replica %d keeps files: %v", i, entries)
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		db.wantNoPassword(t, fmt.Sprintf("the log of replica %d", i), logs[i].text.String())
	}
	if !strings.Contains(logs[0].text.String(), db.url.Host) {
		t.Errorf("the log does not tell which database is served:\n%s", logs[0].text.String())
	}
}

// wantMembers waits until all replicas report the same leader and all members.
func wantMembers(t *testing.T, clients []*clientv3.Client, replicas []*launch.Server) {
	t.Helper()
	var want []string
	for _, r := range replicas {
		want = append(want, r.ClientURL())
	}
	slices.Sort(want)
	deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		told := ""
		same := true
		leaders, ids := map[uint64]bool{}, map[uint64]bool{}
		for _, c := range clients {
			list, err := c.MemberList(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var urls []string
			for _, m := range list.Members {
				urls = append(urls, m.ClientURLs...)
			}
			slices.Sort(urls)
			status, err := c.Status(t.Context(), c.Endpoints()[0])
			if err != nil {
				t.Fatal(err)
			}
			leaders[status.Leader], ids[status.Header.MemberId] = true, true
			same = same && slices.Equal(urls, want) && status.Header.ClusterId == list.Header.ClusterId
			told += fmt.Sprintf("%v leader %x; ", urls, status.Leader)
		}
		if same && len(leaders) == 1 && !leaders[0] && len(ids) == len(clients) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the replicas tell %s; want %v", told, want)
		}
	}
}

// page fetches a page and checks its status.
func page(t *testing.T, address string, code int) string {
	t.Helper()
	resp, err := http.Get(address) //nolint:noctx // a test's own loopback server
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != code {
		t.Errorf("%s: %d %s, %v; want %d", address, resp.StatusCode, body, err, code)
	}
	return string(body)
}

// The error for a bad DSN says what is wrong and contains no password. The command fails at once instead of retrying
// for a minute.
func TestRefusedDatabases(t *testing.T) {
	db := newSecretive(t)
	password := func(p string) func(*url.URL) {
		return func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), p) }
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"wrong password": {
			[]string{"--datastore", db.with(password(db.secret + "x"))},
			"password authentication failed",
		},
		"wrong password file": {[]string{
			"--datastore", db.dsn(), "--datastore-password-file",
			db.passwordFile(t, db.secret+"x"),
		}, "password authentication failed"},
		"no password file": {
			[]string{"--datastore", db.dsn(), "--datastore-password-file", "/nowhere"},
			"/nowhere",
		},
		"no such database": {
			[]string{"--datastore", db.with(func(u *url.URL) { u.Path += "x" })},
			"does not exist",
		},
		"nobody listens": {[]string{
			"--datastore", db.with(func(u *url.URL) { u.Host = "127.0.0.1:1" }),
			"--datastore-wait", "0",
		}, "127.0.0.1"},
		"nobody listens, yet": {[]string{
			"--datastore", db.with(func(u *url.URL) { u.Host = "127.0.0.1:1" }),
			"--datastore-wait", "1s",
		}, "127.0.0.1"},
		"malformed": {[]string{"--datastore", strings.Replace(db.dsn(), "@", "@%zz:", 1)}, "postgres://"},
		"unescaped": {[]string{
			"--datastore", "postgres://user:" + db.secret + "/#@host/db",
			"--datastore-wait", "0",
		}, "postgres://"},
		"bad port": {[]string{
			"--datastore", db.with(func(u *url.URL) { u.Host = "host:port" }),
			"--datastore-wait", "0",
		}, "postgres://"},
		"unknown parameter": {
			[]string{"--datastore", db.dsn() + "&password=" + db.secret + "&sslmode=odd"},
			"postgres://",
		},
		"another scheme":   {[]string{"--datastore", "mysql://user:" + db.secret + "@host/db"}, "mysql"},
		"no scheme":        {[]string{"--datastore", "user:" + db.secret + "@host/db"}, "postgres://"},
		"keywords":         {[]string{"--datastore", "host=h user=u password=" + db.secret}, "postgres://"},
		"without its flag": {[]string{db.dsn()}, "--datastore"},
		"too few connections": {
			[]string{"--datastore", db.dsn(), "--datastore-max-connections", "3"},
			"--datastore-max-connections",
		},
		"schema, wrong word": {
			[]string{"!schema", "status", "--datastore", db.with(password(db.secret + "x"))},
			"password authentication failed",
		},
		"schema without flag": {[]string{"!schema", "status", db.dsn()}, "--datastore"},
		"repair of nothing": {
			[]string{"!repair", "--bump-revision", "5", "--yes", "--datastore", db.dsn()},
			"contains no sqlstore data",
		},
		"repair, nothing there": {[]string{
			"!repair", "--bump-revision", "5", "--yes", "--datastore",
			db.with(func(u *url.URL) { u.Host = "127.0.0.1:1" }),
		}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said string
			if command, ok := strings.CutPrefix(c.args[0], "!"); ok {
				out, err := sqlstore(t, append([]string{command}, c.args[1:]...)...)
				if err == nil {
					t.Fatalf("it worked: %s", out)
				}
				said = out
			} else {
				_, err := launch.TryStart(t, launch.Config{Args: c.args})
				if err == nil {
					t.Fatal("it started")
				}
				said = err.Error()
			}
			db.wantNoPassword(t, "the output", said)
			lines := strings.Split(strings.TrimSpace(said), "\n") // the error ends with the log
			if last := lines[len(lines)-1]; !strings.Contains(last, c.want) || !strings.HasPrefix(last, "sqlstore: ") &&
				!strings.Contains(last, `"level":"ERROR"`) {
				t.Errorf("the last line is %q, want %q in it", last, c.want)
			}
		})
	}
	for _, command := range [][]string{
		{"--help"},
		{"serve", "--help"},
		{"schema", "--help"},
		{"repair", "--help"},
		{"token-keys", "--help"},
	} {
		t.Setenv("SQLSTORE_DATASTORE", db.dsn())
		out, err := sqlstore(t, command...)
		if err != nil {
			t.Error(err)
		}
		db.wantNoPassword(t, strings.Join(command, " "), out)
	}
}

// A server that starts before its database waits for it and can be stopped while it waits.
func TestStartBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	dsn := server.Database(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := newLog()
	ended := make(chan error, 1)
	cmd := command(t, stopped, "serve", "--listen-client-urls", "http://127.0.0.1:0", "--datastore", dsn)
	go func() { ended <- cmd.Wait() }()
	stopped.wait(t, "retrying")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a stop while it waited: %v", err)
	}

	waiting := newLog()
	started := make(chan *launch.Server, 1)
	failed := make(chan error, 1)
	go func() {
		s, err := launch.TryStart(t, launch.Config{Log: waiting, Args: []string{"--datastore", dsn}})
		if err != nil {
			failed <- err
			return
		}
		started <- s
	}()
	waiting.wait(t, "retrying")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-started:
		if _, err := connect(t, s.Endpoint()).Put(t.Context(), "k", "v"); err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	case err := <-failed:
		t.Fatal(err)
	}
}

// After a repair, the server serves the current state, everything older is compacted, and the next write follows the
// new revision. Running replicas notice, and their watches of older revisions end.
func TestRepair(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		dsn := pgserver.Database(t)
		s := launch.Start(t, launch.Config{Args: []string{"--datastore", dsn}})
		testRepair(t, s, true, 1<<61, "--datastore", dsn)
	})
	t.Run("sqlite", func(t *testing.T) {
		s := launch.Start(t, launch.Config{})
		testRepair(t, s, false, 1<<42-1, "--data-dir", s.DataDir())
	})
}

// testRepair repairs a database that can be lifted to highest.
func testRepair(t *testing.T, s *launch.Server, running bool, highest int64, database ...string) {
	t.Helper()
	ctx := t.Context()
	const bump = 1_000_000
	c := connect(t, s.Endpoint())
	for i := range 10 {
		if _, err := c.Put(ctx, fmt.Sprintf("k%d", i%5), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	repair := func(want string, args ...string) {
		t.Helper()
		out, err := sqlstore(t, append(append([]string{"repair"}, args...), database...)...)
		if (err == nil) == strings.Contains("\n"+out, "\nsqlstore:") || !strings.Contains(out, want) {
			t.Errorf("repair %v: %q, %v; want %q", args, out, err, want)
		}
	}
	var watch clientv3.WatchChan
	if running {
		watch = c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-watch
	} else if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	repair("--bump-revision is required")
	repair("--bump-revision is required", "--bump-revision", "-5", "--yes")
	repair("is already at revision 11", "--bump-revision", "11", "--yes")
	repair("nothing was changed", "--bump-revision", fmt.Sprint(bump))
	repair("will be at revision 1000000", "--bump-revision", fmt.Sprint(bump))
	repair("revision 1000000, compacted there (it was 11)", "--bump-revision", fmt.Sprint(bump), "--yes")
	repair("is already at revision 1000000", "--bump-revision", fmt.Sprint(bump), "--yes")
	repair("--bump-revision is required", "--bump-revision", "2000000", "--bump-by", "5", "--yes")
	for _, far := range []int64{highest + 1, math.MaxInt64} {
		repair("can be lifted to", "--bump-revision", fmt.Sprint(far), "--yes")
		repair("can be lifted to", "--bump-by", fmt.Sprint(far), "--yes")
	}
	repair(fmt.Sprintf("will be at revision %d", highest), "--bump-revision", fmt.Sprint(highest))
	repair("will be at revision 1000005", "--bump-by", "5")
	if !running {
		s.Restart(t)
		c = connect(t, s.Endpoint())
	}
	got, err := c.Get(ctx, "k", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 5 || got.Header.Revision != bump {
		t.Fatalf("the current state: %v, %v", got, err)
	}
	for i, kv := range got.Kvs {
		if string(kv.Value) != fmt.Sprint(i+5) || kv.ModRevision != int64(i+7) {
			t.Errorf("%v, want %d of revision %d", kv, i+5, i+7)
		}
	}
	for _, rev := range []int64{1, 11, 12, bump - 1} {
		if _, err := c.Get(ctx, "k0", clientv3.WithRev(rev)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("a read at %d: %v", rev, err)
		}
		if r := <-c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(rev)); r.CompactRevision != bump {
			t.Errorf("a watch from %d: %+v", rev, r)
		}
	}
	after := c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(bump+1))
	put, err := c.Put(ctx, "k0", "after")
	if err != nil || put.Header.Revision != bump+1 {
		t.Fatalf("the next write: %v, %v", put, err)
	}
	if r := <-after; len(r.Events) != 1 || r.Events[0].Kv.ModRevision != bump+1 {
		t.Errorf("a new watch: %+v", r)
	}
	if running {
		if r := <-watch; r.Err() == nil && (len(r.Events) != 1 || r.Events[0].Kv.ModRevision != bump+1) {
			t.Errorf("the watch under way: %+v", r)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// Schema commands work on Postgres as they do on SQLite.
func TestSchemaCommandsOnPostgres(t *testing.T) {
	dsn := pgserver.Database(t)
	want := func(part string, args ...string) {
		t.Helper()
		out, err := sqlstore(t, append(append([]string{"schema"}, args...), "--datastore", dsn)...)
		if (err == nil) == strings.Contains("\n"+out, "\nsqlstore:") || !strings.Contains(out, part) {
			t.Errorf("schema %v: %q, %v; want %q", args, out, err, part)
		}
	}
	want("version 0 of 1 (older than this program", "status")
	want("up to date", "up")
	launch.Start(t, launch.Config{Args: []string{"--datastore", dsn}})
	want("up to date", "status") // while a server runs
}

// command starts the binary and returns its process.
func command(t *testing.T, out io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}
