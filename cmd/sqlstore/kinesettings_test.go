package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func readKine(args ...string) (*settings, *kineMode, error) {
	m := &kineMode{args: args}
	s, _, err := m.read()
	return s, m, err
}

// Each of kine's settings has its meaning in those of serve. Variables count less than the command line.
func TestKineSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	s, _, err := readKine()
	c := &s.config
	if err != nil || c.ListenClientURLs[0] != "http://0.0.0.0:2379" ||
		c.ListenMetricsURLs[0] != "http://0.0.0.0:8080" || !c.InsecurePlaintext || c.OnPostgres() ||
		len(c.CORS)+len(c.HostWhitelist) > 0 {
		t.Errorf("defaults: %+v, %v", c, err)
	}
	if path, err := c.Database(); err != nil || !strings.HasSuffix(path, "/db/state.db") || !filepath.IsAbs(path) {
		t.Errorf("default database %s, %v", path, err)
	}
	t.Setenv("KINE_LISTEN_ADDRESS", "127.0.0.1:1")
	t.Setenv("KINE_METRICS_BIND_ADDRESS", "0")
	t.Setenv("SQLSTORE_QUOTA_BACKEND_BYTES", "1GiB")
	s, m, err := readKine("-listen-address", "tcp://127.0.0.1:2",
		"--endpoint=sqlite://file:a/b.db?_journal=WAL", "--debug",
		"--server-cert-file=c", "--server-key-file=k", "--trusted-ca-file=a", "--compact-interval=5m",
		"--compact-min-retain=7", "--poll-batch-size=5", "--log-format=json", "--watch-progress-notify-interval=9s",
		"--datastore-max-open-connections=30", "--ca-file=ca", "--metrics-enable-profiling")
	if err != nil {
		t.Fatal(err)
	}
	c = &s.config
	if c.ListenClientURLs[0] != "https://127.0.0.1:2" || len(c.ListenMetricsURLs) > 0 || c.TLS.Cert != "c" ||
		c.TLS.Key != "k" || c.TLS.TrustedCA != "a" || !c.TLS.RequireClientCert {
		t.Errorf("listeners: %+v", c)
	}
	if s.logLevel != "debug" || s.logFormat != formatJSON || c.WatchProgressInterval != 9*time.Second ||
		c.DatastoreMaxConns != 0 || !c.Profiling || c.QuotaBytes != 1<<30 {
		t.Errorf("%+v", s)
	}
	if c.Compaction.Mode != "revision" || c.Compaction.Retention != "7" {
		t.Errorf("compaction: %+v", c.Compaction)
	}
	if path, err := c.Database(); err != nil || !strings.HasSuffix(path, "/a/b.db") || c.DataDir != filepath.Dir(path) {
		t.Errorf("database %s, %v", path, err)
	}
	want := []string{
		"--poll-batch-size", "--ca-file (without Postgres)", "--datastore-max-open-connections (without Postgres)",
		"--compact-interval (any but 0 is the same)",
	}
	if !slices.Equal(m.without, want) {
		t.Errorf("without effect: %q", m.without)
	}
}

// What kine accepts starts, although serve is stricter.
func TestKineAccepts(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args []string
		is   func(s *settings) bool
	}{
		{
			[]string{"--datastore-max-open-connections=1", "--endpoint=postgres://u@h/d"},
			func(s *settings) bool { return s.config.DatastoreMaxConns == 4 },
		},
		{
			[]string{"--datastore-max-open-connections=1", "--endpoint=sqlite://"},
			func(s *settings) bool { return strings.HasSuffix(s.config.Datastore, "/db/state.db") },
		},
		{
			[]string{"--trusted-ca-file=a"},
			func(s *settings) bool { return s.config.TLS.TrustedCA == "" && !s.config.TLS.RequireClientCert },
		},
		{
			[]string{"--metrics-bind-address=", "--listen-address="},
			func(s *settings) bool {
				return s.config.ListenMetricsURLs[0] == "http://0.0.0.0:8080" &&
					s.config.ListenClientURLs[0] == "unix://kine.sock"
			},
		},
		{
			[]string{"--datastore-connection-max-lifetime", "-1s", "--endpoint", "postgres://"},
			func(s *settings) bool {
				return s.config.Datastore == "postgres://postgres:postgres@localhost/kubernetes"
			},
		},
		{
			[]string{"--compact-interval=1h", "--compact-min-retain=0"},
			func(s *settings) bool { return s.config.Compaction.Retention == "1" },
		},
		{[]string{"--datastore-poll-interval=1s"}, func(*settings) bool { return true }},
	} {
		if s, _, err := readKine(c.args...); err != nil || !c.is(s) {
			t.Errorf("%q: %+v, %v", c.args, s.config, err)
		}
	}
	for name, want := range map[string]string{
		"/d/k%20x.db": "/d/k%20x.db", "/d/100%.db": "/d/100%.db", "/d/a#b.db": "/d/a#b.db",
		"file:/d/k%20x.db": "/d/k x.db",
	} {
		s, _, err := readKine("--endpoint=sqlite://" + name + "?mode=rwc")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.config.Database(); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// An endpoint that a template has left empty does not begin an empty store.
func TestKineRefusesEmptyEndpoint(t *testing.T) {
	_, _, err := readKine("--endpoint=")
	if !errors.Is(err, errSettings) || !strings.Contains(err.Error(), "--endpoint") {
		t.Errorf("flag: %v", err)
	}
	t.Setenv("KINE_ENDPOINT", "")
	if _, _, err := readKine(); !errors.Is(err, errSettings) || !strings.Contains(err.Error(), "KINE_ENDPOINT") {
		t.Errorf("variable: %v", err)
	}
	if _, _, err := readKine("--endpoint=sqlite://"); err != nil {
		t.Errorf("a flag and an empty variable: %v", err)
	}
}

// Variables of serve set what kine lacks. Those in whose place kine has a flag would name another store or listener.
func TestKineVariables(t *testing.T) {
	t.Setenv("KINE_NAME", "not kine's")
	t.Setenv("KINE_METRICS", "not kine's")
	t.Setenv("KINE_S3_REGION", "of another driver")
	s, _, err := readKine()
	if err != nil || s.config.Name != "" {
		t.Errorf("name %q, %v", s.config.Name, err)
	}
	for _, name := range []string{"SQLSTORE_LISTEN_CLIENT_URLS", "SQLSTORE_DATASTORE", "SQLSTORE_CONFIG_FILE"} {
		t.Setenv(name, "x")
		if _, _, err := readKine(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// kine's endpoints of Postgres become DSNs, with the same rules for the database's name and for TLS.
func TestKineEndpoints(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--endpoint=postgres://u:p@h"}, "postgres://u:p@h/kubernetes"},
		{[]string{"--endpoint=Postgres://u:p@h"}, "postgres://u:p@h/kubernetes"},
		{
			[]string{"--endpoint=postgresql://u:p@h:1/Tenant_A?sslmode=disable"},
			"postgresql://u:p@h:1/tenant_a?sslmode=disable",
		},
		{
			[]string{"--endpoint=postgres://h/d", "--ca-file=/ca", "--cert-file=/c", "--key-file=/k"},
			"postgres://h/d?sslcert=%2Fc&sslkey=%2Fk&sslmode=verify-full&sslrootcert=%2Fca",
		},
		{
			[]string{"--endpoint=postgres://h/d", "--ca-file=/ca", "--skip-verify"},
			"postgres://h/d?sslmode=verify-full&sslrootcert=%2Fca",
		},
		{
			[]string{
				"--endpoint=postgres://h/d", "--datastore-connection-max-lifetime=1h",
				"--datastore-connection-max-idle-time=1m",
			},
			"postgres://h/d?pool_max_conn_idle_time=1m0s&pool_max_conn_lifetime=1h0m0s",
		},
	} {
		s, _, err := readKine(c.args...)
		if err != nil || s.config.Datastore != c.want {
			t.Errorf("%q: %s, %v; want %s", c.args, s.config.Datastore, err, c.want)
		}
	}
}

// Drivers that are not available are refused with what to use instead, and no error shows a password.
func TestKineRefusesDrivers(t *testing.T) {
	for endpoint, want := range map[string]string{
		"mysql://u:secret@tcp(h)/d":          "import --from kine+mysql://",
		"nats://u:secret@h?bucket=d&noEmbed": "postgres://... for several servers",
		"jetstream://u:secret@h":             "postgres://... for several servers",
		"t4:///d":                            "--backup-to s3://",
		"https://h:2379":                     "give its address to the client",
		"litestream:///d/state.db":           "--no-page-checksums",
		"oracle://u:secret@h":                "unknown kind",
		"u:secret@h":                         "write sqlite://path",
		"postgres://u:se#secret@h/d":         "malformed",
		"postgres://u:secret@h/d?a=b;c=d":    "malformed",
		"postgres://u:secret@h/d#x":          "malformed",
		"sqlite://file:%zz":                  "invalid URL escape",
		"sqlite://:memory:?cache=shared":     "names no file",
	} {
		_, _, err := readKine("--endpoint", endpoint)
		checkHint(t, endpoint, err, want)
	}
	for _, args := range [][]string{
		{"--s3-folder=secret"},
		{"postgres://u:secret@h/d"},
		{"--log-format=secret"},
		{"--no-such-flag"},
		{"--compact-interval=often"},
		{"--compact-interval", "--endpoint=postgres://u:secret@h/d"},
	} {
		if _, _, err := readKine(args...); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", args, err)
		}
	}
	t.Setenv("KINE_DATASTORE_CONNECTION_MAX_LIFETIME", "often")
	if _, _, err := readKine(); err == nil || !strings.Contains(err.Error(), "KINE_DATASTORE_CONNECTION_MAX_LIFETIME") {
		t.Error(err)
	}
	if _, err := os.Stat("db"); err == nil {
		t.Error("reading the settings made a directory")
	}
}
