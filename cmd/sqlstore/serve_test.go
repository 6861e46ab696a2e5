package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

func connect(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// log collects a server's log; a test can wait for a part of it.
type log struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

// wait returns the first line that contains all parts.
func (l *log) wait(t *testing.T, parts ...string) string {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		text, changed := l.text.String(), l.changed
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return line
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no line with %q in the log:\n%s", parts, text)
		}
	}
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, s *launch.Server, name string) string {
	t.Helper()
	for line := range strings.Lines(page(t, s.MetricsURL()+"/metrics", http.StatusOK)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no metric %s", name)
	return ""
}

func TestWarnsOfSettingsWithoutEffect(t *testing.T) {
	l := newLog()
	launch.Start(t, launch.Config{Args: []string{"--log-format=console", "--audit-log-level=all"}, Log: l})
	l.wait(t, "WARN  a setting has no effect setting=--audit-log-level reason=\"--audit-log is not set\"")
}

func TestGracefulStopFinishesWhatIsInFlight(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	c := connect(t, s.Endpoint())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		mu    sync.Mutex
		acked []string
		busy  = make(chan struct{})
		once  sync.Once
		wg    sync.WaitGroup
	)
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", w, i)
				if _, err := c.Put(ctx, key, "v"); err != nil {
					return
				}
				mu.Lock()
				acked = append(acked, key)
				if len(acked) > 200 {
					once.Do(func() { close(busy) })
				}
				mu.Unlock()
			}
		})
	}
	watch := c.Watch(ctx, "", clientv3.WithPrefix()) // an endless stream must not delay the stop
	<-busy
	<-watch
	began := time.Now()
	if err := s.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("it took %s", took)
	}
	cancel()
	wg.Wait()
	wal, err := os.Stat(filepath.Join(s.DataDir(), "sqlstore.db-wal"))
	if err == nil && wal.Size() > 0 {
		t.Errorf("a WAL of %d bytes is left: no checkpoint", wal.Size())
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	s.Restart(t)
	got, err := connect(t, s.Endpoint()).Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	remaining := map[string]bool{}
	for _, kv := range got.Kvs {
		remaining[string(kv.Key)] = true
	}
	for _, key := range acked {
		if !remaining[key] {
			t.Errorf("acknowledged key %s is lost", key)
		}
	}
}

// The log says what a start has opened: a new database where there should be an old one is a wrong directory.
func TestLogOfAStart(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{
		"sqlite": "--data-dir=" + filepath.Join(t.TempDir(), "d"), "postgres": "--datastore=" + pgserver.Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			path := map[string]string{"sqlite": "/", "postgres": "postgres://"}[name]
			for _, opened := range [][]string{
				{`"created a new, empty database"`, `"database":"` + path},
				{`"opened the database"`, `"database":"` + path, `"revision":3,"keys":2,"bytes":`, `"written-by":"0.`},
			} {
				l := newLog()
				s := launch.Start(t, launch.Config{Log: l, Args: []string{database}})
				l.wait(t, opened...)
				l.wait(t, `"msg":"ready"`, s.Endpoint(), `["Accepted","ResolvedRefs","Programmed"`, "compaction")
				client := connect(t, s.Endpoint())
				for _, key := range []string{"a", "b"} {
					if _, err := client.Put(t.Context(), key, ""); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
				l.wait(t, `"msg":"stopped"`)
				l.mu.Lock()
				if text := l.text.String(); strings.Contains(text, "condition holds") {
					t.Errorf("the start logs conditions that hold:\n%s", text)
				}
				l.mu.Unlock()
			}
		})
	}
}

func TestHangupReadsTheFileAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("quota-backend-bytes: 1000000000\nlog-level: info\n")
	l := newLog()
	s := launch.Start(t, launch.Config{Args: []string{"--config-file", path}, Log: l})
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if got := metric(t, s, "etcd_server_quota_backend_bytes"); got != "1e+09" {
		t.Fatalf("quota %s", got)
	}
	write("quota-backend-bytes: 3000000000\nlog-level: warn\n")
	hangup()
	l.wait(t, "settings reloaded", "quota-backend-bytes", "log-level")
	if got := metric(t, s, "etcd_server_quota_backend_bytes"); got != "3e+09" {
		t.Errorf("quota %s after the reload", got)
	}
	write("quota-backend-bytes: 4000000000\nmax-txn-ops: 5\nname: other\n")
	hangup()
	l.wait(t, "cannot change while the server runs", "max-txn-ops", "name")
	write("quota-backend-byte: 4000000000\n")
	hangup()
	l.wait(t, "settings not reloaded", "unknown key", "quota-backend-byte\\")
	if got := metric(t, s, "etcd_server_quota_backend_bytes"); got != "3e+09" {
		t.Errorf("quota %s after refused reloads", got)
	}
}

// Bad requests cannot fill the log; only the debug level shows them.
func TestBadRequestsAreNotLogged(t *testing.T) {
	for _, level := range []string{"info", "debug"} {
		t.Run(level, func(t *testing.T) {
			s := launch.Start(t, launch.Config{Args: []string{"--log-level", level}})
			//nolint:noctx // a test's own loopback server
			resp, err := http.Post(s.ClientURL()+"/v3/lease/keepalive", "application/json", strings.NewReader("{"))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if err := s.Stop(); err != nil { // all that is logged has been logged then
				t.Fatal(err)
			}
			if logged := strings.Contains(s.Log(), "decode request"); logged != (level == "debug") {
				t.Errorf("logged is %v:\n%s", logged, s.Log())
			}
			for line := range strings.Lines(s.Log()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("a line that is not the log's: %s", line)
				}
			}
		})
	}
}

func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	next := func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	s := launch.Start(t, launch.Config{Env: []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=100000"}})
	if got := next(); got != "READY=1" {
		t.Fatalf("told %q, want that it is ready", got)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Fatalf("told %q, want a sign of life", got)
	}
	until := func(want string) string {
		t.Helper()
		for {
			if got := next(); strings.HasPrefix(got, want) {
				return got
			} else if got != "WATCHDOG=1" {
				t.Fatalf("told %q, want %q", got, want)
			}
		}
	}
	var before, after unix.Timespec // as sd_notify(3) asks for it with RELOADING=1
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	told := until("RELOADING=1")
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(strings.TrimPrefix(told, "RELOADING=1\nMONOTONIC_USEC="), 10, 64)
	if err != nil || at < before.Nano()/1000 || at > after.Nano()/1000 {
		t.Errorf("told %q, want the time from %d to %d", told, before.Nano()/1000, after.Nano()/1000)
	}
	until("READY=1")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	until("STOPPING=1")
}

func TestRefusedStarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("SQLite is not what this is, by a long way"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ args, want []string }{
		"plaintext for all": {[]string{"--listen-client-urls", "http://0.0.0.0:0"}, []string{
			"http://0.0.0.0:0",
			"--insecure-plaintext",
		}},
		"metrics for all": {[]string{"--listen-metrics-urls", "http://0.0.0.0:0"}, []string{
			"http://0.0.0.0:0",
			"--insecure-plaintext",
		}},
		"TLS without files":   {[]string{"--listen-client-urls", "https://127.0.0.1:0"}, []string{"--cert-file"}},
		"clients without TLS": {[]string{"--client-cert-auth"}, []string{"--cert-file"}},
		"unknown flag":        {[]string{"--initial-cluster", "x"}, []string{"--initial-cluster"}},
		"unknown database":    {[]string{"--datastore", "oracle://user:secret@host/x"}, []string{"oracle"}},
		"relative path": {
			[]string{"--datastore", "sqlite://rel/path.db"},
			[]string{`\"rel\"`, "sqlite:///path/to/file"},
		},
		"datastore's options": {[]string{"--datastore", "sqlite://" + file + "?c%20.db"}, []string{"?c%20.db", "%3F"}},
		"advertised nonsense": {
			[]string{"--advertise-client-urls", "junk"},
			[]string{`advertised URL \"junk\"`, "http"},
		},
		"not a database":      {[]string{"--datastore", "sqlite://" + file}, []string{file}},
		"directory of a file": {[]string{"--data-dir", file + "/x"}, []string{file}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := launch.TryStart(t, launch.Config{Args: c.args})
			if err == nil {
				t.Fatal("it started")
			}
			lines := strings.Split(strings.TrimSpace(err.Error()), "\n") // the error ends with the log
			last := lines[len(lines)-1]
			for _, part := range c.want {
				if !strings.Contains(last, part) {
					t.Errorf("the last line is %q, want %q in it", last, part)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Error("a password is in the log")
			}
		})
	}
}

func TestInsecurePlaintext(t *testing.T) {
	s := launch.Start(t, launch.Config{Args: []string{
		"--listen-client-urls", "http://0.0.0.0:0",
		"--insecure-plaintext",
	}})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestSecondServerOnOneDatabaseIsRefused(t *testing.T) {
	first := launch.Start(t, launch.Config{})
	_, err := launch.TryStart(t, launch.Config{DataDir: first.DataDir()})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v, want that the database is in use", err)
	}
	if _, err := connect(t, first.Endpoint()).Put(t.Context(), "k", "v"); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

// sqlstore runs a command of the binary.
func sqlstore(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), launch.Binary(t), args...).CombinedOutput()
	return string(out), err
}

func TestSchemaCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := launch.Start(t, launch.Config{DataDir: dir})
	want := func(part string, args ...string) {
		t.Helper()
		out, err := sqlstore(t, append(append([]string{"schema"}, args...), "--data-dir", dir)...)
		if (err == nil) != !strings.Contains("\n"+out, "\nsqlstore:") || !strings.Contains(out, part) {
			t.Errorf("schema %v: %q, %v; want %q", args, out, err, part)
		}
	}
	want("in use by another process", "status")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	want("up to date", "status")
	want("up to date", "up")
	if out, err := sqlstore(t, "schema", "status", "--data-dir", filepath.Join(dir, "none")); err == nil {
		t.Errorf("a database that is not there has status %q", out)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	out, err := sqlstore(t, "version")
	for _, part := range []string{
		"sqlstore 0.", "\ncommit   ", "\ndate     ", "\netcd API 3.7.3\n", " go1.", "\nSQLite   3.",
	} {
		if err != nil || !strings.Contains(out, part) {
			t.Errorf("version: %q, %v; want %q", out, err, part)
		}
	}
	if flag, err := sqlstore(t, "--version"); err != nil || flag != out {
		t.Errorf("--version: %q, %v; want %q", flag, err, out)
	}
	out, err = sqlstore(t, "version", "--json")
	var v map[string]string
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || v["etcd"] != "3.7.3" || v["sqlstore"] == "" ||
		v["go"] == "" || v["commit"] == "" || v["date"] == "" || !strings.HasPrefix(v["sqlite"], "3.") {
		t.Errorf("version --json: %q, %v", out, err)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, err := sqlstore(t, "completion", shell); err != nil || !strings.Contains(out, "sqlstore") {
			t.Errorf("completion %s: %d bytes, %v", shell, len(out), err)
		}
	}
}

func TestServeIsTheDefaultCommand(t *testing.T) {
	s := launch.Start(t, launch.Config{Command: []string{launch.Binary(t)}})
	if _, err := connect(t, s.Endpoint()).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// A server that can write to its data directory alone makes snapshots there.
func TestSnapshotWithoutTemporaryDirectory(t *testing.T) {
	dir := t.TempDir()
	s := launch.Start(t, launch.Config{
		DataDir: dir, Env: []string{"TMPDIR=" + filepath.Join(dir, "none")},
	})
	r, err := connect(t, s.ClientURL()).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err := errors.Join(err, r.Close()); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "sqlstore-*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %q, %v", left, err)
	}
}
