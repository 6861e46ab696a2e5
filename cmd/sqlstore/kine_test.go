package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// asKine runs the binary under the name kine in an empty directory, where it must become ready. It must serve what its
// launchers ask for, and stop when it is asked to. The variable is for command lines that leave the metrics on kine's
// own port, which another test may use.
func asKine(t *testing.T, endpoint, metrics string, args ...string) *log {
	t.Helper()
	l := newLog()
	cmd := exec.CommandContext(t.Context(), named(t, "kine"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), l, l
	cmd.Env = append(os.Environ(), "KINE_METRICS_BIND_ADDRESS=127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "INFO", "ready")
	asLauncher(t, endpoint)
	if metrics != "" {
		page(t, "http://"+metrics+"/metrics", http.StatusOK)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("stop: %v", err)
	}
	return l
}

// asLauncher makes the calls with which launchers find out that kine is ready: vcluster lists the members, k0s creates
// a key with a lease, unless it exists, and reads it.
func asLauncher(t *testing.T, endpoint string) {
	t.Helper()
	c, ctx := connect(t, endpoint), t.Context()
	if _, err := c.MemberList(ctx); err != nil {
		t.Errorf("members: %v", err)
	}
	const key, value = "/k0s-health-check", "value"
	lease, err := c.Grant(ctx, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(lease.ID))).Commit()
	if err != nil {
		t.Errorf("create: %v", err)
	}
	if got, err := c.Get(ctx, key); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
		t.Errorf("get: %v, %v", got, err)
	}
}

// named returns the binary under another name.
func named(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(launch.Binary(t), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// socketDir returns a directory whose name is short enough for a socket in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kine") //nolint:usetesting // t.TempDir's names are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// The command lines with which k0s (pkg/component/controller/kine.go) and vcluster (pkg/k8s/k8s.go) start kine by
// default, with other directories and ports.
func TestKineLaunchers(t *testing.T) {
	metrics, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(metrics, ":")
	dir := socketDir(t)
	asKine(t, "unix:"+dir+"/kine.sock:2379", metrics,
		"--compact-interval=0",
		"--endpoint=sqlite://file:"+dir+"/db/state.db?mode=rwc&_journal=WAL",
		"--listen-address=unix://"+dir+"/kine.sock:2379",
		"--metrics-bind-address=:"+port)
	if _, err := os.Stat(dir + "/db/state.db"); err != nil {
		t.Error(err)
	}
	asKine(t, "unix://"+dir+"/kine.sock", metrics,
		"--endpoint=sqlite://"+dir+"/state.db?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"--metrics-bind-address="+metrics,
		"--listen-address=unix://"+dir+"/kine.sock")
	asKine(t, "unix://"+dir+"/kine.sock", "", // up to vcluster 0.34
		"--endpoint=sqlite://"+dir+"/state.db?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"--metrics-bind-address=0",
		"--listen-address=unix://"+dir+"/kine.sock")
}

// The command lines with which Kamaji (internal/builders/controlplane/deployment.go) starts kine over Postgres, for a
// tenant whose role and database it has made, and vcluster with its settings for an embedded database. Postgres
// refuses the tenant without a certificate.
func TestKineLaunchersOverPostgres(t *testing.T) {
	t.Parallel()
	const tenant, secret = "0b3a6e0e-7d3f-4f0f-9a43-6c1d0f0c9b11", "5f0c7f36-54e1-4b43-8d5a-3f7a8c1f7a52"
	s, dir, ours := pgserver.Start(t, pgserver.Options{}), socketDir(t), authority.New(t)
	execute(t, s.DSN(), fmt.Sprintf("CREATE ROLE %q LOGIN PASSWORD '%s'", tenant, secret),
		fmt.Sprintf("CREATE DATABASE %q", tenant),
		fmt.Sprintf("GRANT CONNECT, CREATE ON DATABASE %q TO %q", tenant, tenant),
		fmt.Sprintf("ALTER DATABASE %q OWNER TO %q", tenant, tenant))
	endpoint := "--endpoint=postgres://" + tenant + ":" + secret + "@" + s.Addr() + "/" + tenant
	socket := "unix://" + dir + "/kine"
	l := asKine(t, socket, "", endpoint, "--listen-address="+socket)
	l.wait(t, "starting", "postgres://")

	cert, key := ours.Issue("postgres", s.Host())
	if err := s.ServeTLS(cert, key, ours.PEM()); err != nil {
		t.Fatal(err)
	}
	cert, key = ours.Issue("kamaji")
	for name, content := range map[string][]byte{"ca.crt": ours.PEM(), "server.crt": cert, "server.key": key} {
		authority.Write(t, filepath.Join(dir, name), content)
	}
	asKine(t, socket, "",
		"--ca-file="+dir+"/ca.crt",
		"--cert-file="+dir+"/server.crt",
		endpoint,
		"--key-file="+dir+"/server.key",
		"--listen-address="+socket)
	asKine(t, socket, "",
		endpoint,
		"--ca-file="+dir+"/ca.crt",
		"--key-file="+dir+"/server.key",
		"--cert-file="+dir+"/server.crt",
		"--metrics-bind-address=127.0.0.1:0",
		"--listen-address="+socket)
	args := []string{endpoint, "--ca-file=" + dir + "/ca.crt", "--listen-address=" + socket, "--metrics-bind-address=0"}
	_, problems, code := run(t, named(t, "kine"), args, nil)
	if code != 1 || !strings.Contains(problems, "certificate") {
		t.Errorf("without a certificate: exit code %d, %s", code, problems)
	}
}

// As kine does, it creates the Postgres database that is missing.
func TestKineCreatesTheDatabase(t *testing.T) {
	u, err := url.Parse(pgserver.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	present := *u
	name := strings.ToLower(strings.Trim(u.Path, "/")) + "_of_kine"
	u.Path = "/" + name
	defer execute(t, present.String(), fmt.Sprintf("DROP DATABASE IF EXISTS %q", name))
	dir := socketDir(t)
	for _, created := range []bool{true, false} {
		l := asKine(t, "unix://"+dir+"/s", "", "--endpoint="+u.String(), "--listen-address=unix://"+dir+"/s",
			"--metrics-bind-address=0")
		if got := strings.Contains(l.text.String(), "created the database"); got != created {
			t.Errorf("created %v, want %v:\n%s", got, created, l.text.String())
		}
	}
}

// kine's own data is not served as an empty store.
func TestKineDataIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	err := kine.Export(t.Context(), kine.Prefix+"sqlite://"+file, &kine.Store{
		Revision: 5, Rows: func(_ context.Context, f func(backend.Row) error) error {
			return f(backend.Row{
				Key: []byte("/a"), Value: []byte("v"), ModRevision: 5, CreateRevision: 5, Version: 1,
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgserver.Database(t)
	execute(t, dsn, "CREATE TABLE kine (id bigint)")
	asKine := []string{"--listen-address=127.0.0.1:0", "--metrics-bind-address=0"}
	for _, c := range []struct {
		command, endpoint string
		listen            []string
		want              string
	}{
		{"kine", "--endpoint=sqlite://" + file, asKine, "import --from kine+sqlite://" + file},
		{"kine", "--endpoint=" + dsn, asKine, "import --from kine+postgres://"},
		{
			"serve", "--datastore=" + dsn,
			[]string{"--listen-client-urls=http://127.0.0.1:0"},
			"import --from kine+postgres://",
		},
		{"doctor", "--datastore=" + dsn, []string{"-o=json"}, "import --from kine+postgres://"},
		{"schema", "up", []string{"--datastore=" + dsn}, "import --from kine+postgres://"},
	} {
		args := append([]string{c.command, c.endpoint}, c.listen...)
		out, problems, code := run(t, launch.Binary(t), args, nil)
		problems += out
		if code != 1 || !strings.Contains(problems, c.want) {
			t.Errorf("%s: exit code %d, %s", c.command, code, problems)
		}
	}
	if out, err := sqlstore(t, "schema", "status", "--datastore", dsn); !strings.Contains(out, "version 0 of 1") {
		t.Errorf("a refused start has migrated kine's database: %s, %v", out, err)
	}
	execute(t, dsn, "CREATE SCHEMA beside")
	launch.Start(t, launch.Config{Args: []string{"--datastore", dsn + "&search_path=beside,public"}})
	execute(t, dsn, "ALTER TABLE kine RENAME TO kine_of_old")
	launch.Start(t, launch.Config{Args: []string{"--datastore", dsn}})
}
