package etcdflags_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
)

// parse reads settings, from a file if its text is not empty.
func parse(t *testing.T, args, environ []string, file string) (*etcdflags.Options, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "etcd.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config-file", path)
	}
	var out, problems bytes.Buffer
	o, err := etcdflags.Parse(args, environ, nil, etcdflags.Output{Out: &out, Err: &problems})
	if err == nil {
		err = o.Check()
	}
	return o, err
}

func TestSyntax(t *testing.T) {
	for name, args := range map[string][]string{
		"two dashes, equals sign": {"--name=x", "--pre-vote=false"},
		"two dashes":              {"--name", "x", "--pre-vote=0"},
		"one dash":                {"-name", "x", "-pre-vote=f"},
		"last one counts":         {"-name", "y", "-name=x", "--pre-vote", "--pre-vote=false"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, args, nil, "")
			if err != nil || o.Text("name") != "x" || o.Text("pre-vote") != "false" {
				t.Errorf("%v, %v", o, err)
			}
		})
	}
}

// Empty variables and keys without a value set nothing, except where that must be an error.
func TestEmptyOwnFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(file, []byte("lenient:\nstrict:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]struct{ args, environ []string }{
		"variables": {nil, []string{"SQLSTORE_LENIENT=", "SQLSTORE_STRICT="}},
		"file":      {[]string{"--config-file", file}, nil},
	} {
		set := map[string]bool{}
		own := func(name string, ignoresEmpty bool) etcdflags.Own {
			return etcdflags.Own{Name: name, IgnoresEmpty: ignoresEmpty, Value: setFunc(func(text string) error {
				set[name] = true
				if text != "" {
					t.Errorf("%s is set to %q", name, text)
				}
				return os.ErrInvalid
			})}
		}
		_, err := etcdflags.Parse(source.args, source.environ,
			[]etcdflags.Own{own("lenient", true), own("strict", false)},
			etcdflags.Output{Out: io.Discard, Err: io.Discard})
		if !errors.Is(err, os.ErrInvalid) || set["lenient"] || !set["strict"] {
			t.Errorf("%s: %v, set: %v", name, err, set)
		}
	}
}

type setFunc func(string) error

func (f setFunc) Set(text string) error { return f(text) }
func (setFunc) String() string          { return "" }

func TestVariables(t *testing.T) {
	o, err := parse(t, []string{"--max-txn-ops", "7"},
		[]string{"ETCD_NAME=x", "ETCD_AUTO_TLS=true", "ETCD_DATA_DIR=", "ETCD_NEW=1", "NAME=y"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if o.Text("name") != "x" || o.Text("auto-tls") != "true" || o.Text("data-dir") != "" || o.Given("data-dir") {
		t.Errorf("name %q, auto-tls %q, data-dir %q", o.Text("name"), o.Text("auto-tls"), o.Text("data-dir"))
	}
	var unknown []any
	for _, n := range o.Notes {
		if n.Message == "unrecognized environment variable" {
			unknown = append(unknown, n.Args...)
		}
	}
	if len(unknown) != 2 || unknown[1] != "ETCD_NEW" {
		t.Errorf("unrecognized: %v", unknown)
	}
	_, err = parse(t, []string{"--name", "x"}, []string{"ETCD_NAME=x"}, "")
	if !errors.Is(err, etcdflags.ErrSettings) || !strings.Contains(err.Error(), "shadowed") {
		t.Errorf("variable beside its flag: %v", err)
	}
}

// A file replaces flags and variables, in etcd's names and units.
func TestFile(t *testing.T) {
	o, err := parse(t, []string{"--name", "flag", "--max-txn-ops", "5"}, []string{"ETCD_MAX_REQUEST_BYTES=6"}, `
name: 007
data-dir: /data
watch-progress-notify-interval: 5000000000
log-outputs: [stdout, /var/log/etcd.log]
listen-client-urls: "http://127.0.0.1:2, http://127.0.0.1:1"
advertise-client-urls: ""
auto-compaction-retention: 12
strict-reconfig-check: no
cipher-suites: [A, B]
unknown: 1
cert-file: not-here
client-transport-security:
  cert-file: c.pem
  client-cert-auth: true
  allowed-hostname: [a, b]
peer-transport-security:
  cert-file: p.pem
  allowed-cn: [c]
socket-options: {reuse-port: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"name": "007", "max-txn-ops": "128", "max-request-bytes": "1572864", "data-dir": "/data",
		"watch-progress-notify-interval": "5s", "log-outputs": "/var/log/etcd.log,stdout",
		"listen-client-urls": "http://127.0.0.1:1,http://127.0.0.1:2", "advertise-client-urls": "http://localhost:2379",
		"auto-compaction-retention": "12", "strict-reconfig-check": "false", "cipher-suites": "A,B",
		"cert-file": "c.pem", "client-cert-auth": "true", "client-cert-allowed-hostname": "a,b",
		"peer-cert-file": "p.pem", "peer-cert-allowed-cn": "c", "socket-reuse-port": "true",
	} {
		if got := o.Text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestChecks(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--listen-client-urls http://127.0.0.1:1", "--advertise-client-urls is required"},
		{"--listen-peer-urls http://example.com:1", "expected IP in URL for binding"},
		{"--advertise-client-urls http://:1", `must be "host:port"`},
		{"--heartbeat-interval 0", "--heartbeat-interval must be >0"},
		{"--election-timeout 0", "--election-timeout must be >0"},
		{"--election-timeout 499", "at least as 5 times"},
		{"--election-timeout 50001", "is too long"},
		{"--auto-compaction-mode=", "undefined auto-compaction-mode"},
		{"--auto-compaction-mode x", `unknown auto-compaction-mode "x"`},
		{"--discovery-fallback proxy", "v2 proxy is deprecated"},
		{"--logger capnslog", "unknown logger option"},
		{"--log-level loud", "--log-level"},
		{"--log-format xml", "unknown log format: xml"},
		{"--tls-min-version TLS1.1", "unexpected TLS version"},
		{"--tls-min-version TLS1.3 --tls-max-version TLS1.2", "greater than max version"},
		{"--tls-min-version TLS1.3 --cipher-suites A", "only TLS1.3"},
		{"--compact-hash-check-time 0s", "--compact-hash-check-time must be >0"},
		{"--feature-gates LeaseCheckpointPersist=true", "requires enabling feature gate LeaseCheckpoint"},
		{"--initial-cluster x", "error setting up initial cluster"},
		{"--initial-cluster default=127.0.0.1:2380", "a URL, as in default=http://127.0.0.1:2380"},
		{"--force-new-cluster", "no other members to leave"},
		{"--discovery-endpoints a:1", "--datastore postgres://"},
		{"--discovery-token a", "--datastore postgres://"},
		{"--discovery-srv a", "--datastore postgres://"},
		{"--listen-metrics-urls https://localhost:1", "must be provided for metrics secure url"},
		{"stray", `"stray" is not a valid flag`},
		{"gateway start", "gateway is not available"},
		{"postgres://u:secret@h/d", "found an argument without its flag"},
	} {
		t.Run(c.args, func(t *testing.T) {
			_, err := parse(t, strings.Fields(c.args), nil, "")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	const two = "name: a\n---\nclient-transport-security:\n  client-cert-auth: true\n"
	if _, err := parse(t, nil, nil, two); err == nil ||
		!strings.Contains(err.Error(), "line 2: only one YAML document is read") {
		t.Errorf("two documents: %v", err)
	}
	for file, refused := range map[string]bool{
		"discovery-srv: \"\"": false, "discovery-srv: a": true,
		"discovery-config: {token: \"\", client: {endpoints: []}}": false,
		"discovery-config: {token: a}":                             true,
		"discovery-config: {client: {endpoints: [\"a:1\"]}}":       true,
	} {
		if _, err := parse(t, nil, nil, file); errors.Is(err, etcdflags.ErrRefused) != refused {
			t.Errorf("%s: %v, want a refusal: %v", file, err, refused)
		}
	}
	for _, args := range []string{
		"--force-new-cluster=false", "--feature-gates AllAlpha=true", "--election-timeout 500",
		"--initial-cluster a=http://10.0.0.1:2380", "--v2-deprecation gone", "-force", "--snapshot",
		"--discovery-srv= --discovery-srv-name= --discovery-token= --discovery-endpoints=",
		"--discovery-dial-timeout 1s", "--tls-max-version TLS1.3",
	} {
		if _, err := parse(t, strings.Fields(args), nil, ""); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Flags without effect are named once, by reason.
func TestWithoutEffect(t *testing.T) {
	o, err := parse(t, strings.Fields("--snapshot-count 5 --wal-dir /w --peer-auto-tls --name x -vv"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[any]bool{}
	for _, n := range o.Notes {
		if len(n.Args) > 1 {
			got[n.Args[1]] = true
		}
	}
	for _, want := range []string{"--peer-auto-tls --snapshot-count", "--wal-dir", "--vv"} {
		if !got[want] {
			t.Errorf("no note of %s: %v", want, o.Notes)
		}
	}
}

// The log names the settings in etcd's types, the deprecated flags in its words, and no password.
func TestSettings(t *testing.T) {
	o, err := parse(t, strings.Fields("--snapshot-catchup-entries 7 --v2-deprecation gone "+
		"--discovery-password secret --discovery-user user:secret"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	slog.New(slog.NewJSONHandler(log, nil)).Info("settings", o.Settings()...)
	for _, want := range []string{`"snapshot-catchup-entries":7`, `"v2-deprecation":"write-only"`, `"name":"default"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("a password in %s", log)
	}
	if !slices.ContainsFunc(o.Notes, func(n etcdflags.Note) bool {
		return strings.HasPrefix(n.Message, "--v2-deprecation is deprecated")
	}) {
		t.Errorf("notes %v", o.Notes)
	}
}

func TestBootstrap(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--name a --initial-cluster b=http://1.1.1.1:1", `couldn't find local name "a"`},
		{"--name a --initial-cluster a=http://1.1.1.1:1", "--initial-cluster has a=http://1.1.1.1:1 but missing"},
		{"--name a --initial-cluster a=http://1.1.1.1:1 --initial-advertise-peer-urls " +
			"http://1.1.1.1:1,http://1.1.1.1:2", "but missing from --initial-cluster"},
		{
			"--name a --initial-cluster a=http://1.1.1.1:1,b=http://1.1.1.1:1 --initial-cluster-state existing",
			"has duplicate url",
		},
		{"--name a --initial-cluster a=http://1.1.1.1:1 --initial-advertise-peer-urls http://1.1.1.1:1", ""},
		{"--name a", ""},
	} {
		o, err := parse(t, strings.Fields(c.args), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err = o.CheckBootstrap(); c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
