package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/otlp"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// read sets the flags of serve from all three sources.
func read(t *testing.T, args []string, env map[string]string, file string) (*settings, error) {
	t.Helper()
	s, _, err := readFlags(t, args, env, file)
	return s, err
}

// readFlags is read that also returns the flags.
func readFlags(
	t *testing.T, args []string, env map[string]string, file string,
) (*settings, *pflag.FlagSet, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(slices.Clone(args), "--config-file", path)
	}
	s := &settings{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.register(flags)
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	err := applySettings(flags, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err == nil {
		err = s.finish()
	}
	return s, flags, err
}

func TestPrecedence(t *testing.T) {
	file := "name: from-file\ndata-dir: /file\nmax-txn-ops: 64\n" +
		"listen-client-urls: [http://127.0.0.1:1, http://127.0.0.1:2]\nadvertise-client-urls: http://a:1,http://b:2\n" +
		"client-cert-auth: true\nwatch-progress-notify-interval: 7s\nauto-compaction-retention: " +
		"12\nenable-pprof: null\n"
	env := map[string]string{
		"SQLSTORE_NAME": "from-env", "SQLSTORE_DATA_DIR": "/env",
		"SQLSTORE_ADVERTISE_CLIENT_URLS": "http://c:3", "NAME": "x",
	}
	s, err := read(t, []string{"--name", "from-flag"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	c := s.config
	if c.Name != "from-flag" || c.DataDir != "/env" || c.MaxTxnOps != 64 {
		t.Errorf("name %q, data dir %q, operations %d: want flag over variable over file", c.Name, c.DataDir,
			c.MaxTxnOps)
	}
	if want := []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}; !slices.Equal(c.ListenClientURLs, want) {
		t.Errorf("listen on %v, want %v", c.ListenClientURLs, want)
	}
	if want := []string{"http://c:3"}; !slices.Equal(c.AdvertiseClientURLs, want) {
		t.Errorf("advertise %v, want %v", c.AdvertiseClientURLs, want)
	}
	if !c.TLS.RequireClientCert || c.WatchProgressInterval != 7*time.Second || c.Compaction.Retention != "12" ||
		c.Profiling {
		t.Errorf("%+v", c)
	}
}

func TestTracingSettings(t *testing.T) {
	s, err := read(t, nil, map[string]string{"SQLSTORE_DISTRIBUTED_TRACING_ADDRESS": "collector:4317"},
		"enable-distributed-tracing: true\ndistributed-tracing-sampling-rate: 1000000\n"+
			"distributed-tracing-instance-id: a\n")
	want := otlp.Config{Address: "collector:4317", Service: "sqlstore", Instance: "a", PerMillion: otlp.Million}
	if err != nil || !s.traces || s.tracing != want {
		t.Errorf("%+v, %v", s.tracing, err)
	}
	for _, c := range []struct{ args, want string }{
		{"--distributed-tracing-sampling-rate=-1", "is -1: it must be from 0 to 1000000"},
		{"--distributed-tracing-sampling-rate=1000001", "is 1000001: it must be from 0 to 1000000"},
		{"--distributed-tracing-address=nonsense", `"nonsense": write host:port`},
		{"--distributed-tracing-address=http://u:secret@localhost:4317", "write host:port"},
		{"--distributed-tracing-address=localhost:99999", "write host:port"},
		{"--distributed-tracing-address=localhost:0", "write host:port"},
		{"--enable-distributed-tracing --distributed-tracing-address=", ""},
		{"--enable-distributed-tracing --distributed-tracing-address=[::1]:4317", ""},
	} {
		_, err := read(t, strings.Fields(c.args), nil, "")
		if c.want != "" {
			checkHint(t, c.args, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

// An empty variable or flag must not switch anything off that the file switches on.
func TestEmptyVariables(t *testing.T) {
	file := "trusted-ca-file: ca.pem\nname: n\nclient-cert-auth: true\nmax-txn-ops: 7\ncors: [https://a]\n"
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"variables": {env: map[string]string{
			"SQLSTORE_TRUSTED_CA_FILE": "", "SQLSTORE_NAME": "", "SQLSTORE_CLIENT_CERT_AUTH": "",
			"SQLSTORE_MAX_TXN_OPS": "", "SQLSTORE_CORS": "",
		}},
		"flags": {args: []string{
			"--trusted-ca-file", "", "--name=", "--cors", "", "--client-cert-auth=", "--max-txn-ops=",
		}},
	} {
		s, err := read(t, c.args, c.env, file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c := s.config; c.TLS.TrustedCA != "ca.pem" || c.Name != "n" || !c.TLS.RequireClientCert ||
			c.MaxTxnOps != 7 || !slices.Equal(c.CORS, []string{"https://a"}) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	s, err := read(t, []string{"--name", ""}, map[string]string{"SQLSTORE_NAME": "v"}, file)
	if err != nil || s.config.Name != "v" {
		t.Errorf("a variable behind an empty flag: %+v, %v", s, err)
	}
}

// An empty text leaves each setting at its default. On the command line, it is a value of lists.
func TestEmptySettings(t *testing.T) {
	sources := map[string]func(fs *pflag.FlagSet, name string) error{
		"flag": func(fs *pflag.FlagSet, name string) error {
			if kind := fs.Lookup(name).Value.Type(); kind != "string" && strings.HasPrefix(kind, "string") {
				return nil
			}
			return errors.Join(fs.Parse([]string{"--" + name + "="}),
				applySettings(fs, func(string) (string, bool) { return "", false }))
		},
		"environment": func(fs *pflag.FlagSet, name string) error {
			return applyEnvironment(fs, map[string]bool{}, func(v string) (string, bool) {
				return "", v == variable(name)
			})
		},
		"file": func(fs *pflag.FlagSet, name string) error {
			return applyFile(fs, map[string]bool{}, []byte(name+": ''"))
		},
	}
	all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	(&settings{}).register(all)
	all.VisitAll(func(f *pflag.Flag) {
		if !ignoresEmpty(f) || slices.Contains(notInFile, f.Name) {
			return
		}
		for source, apply := range sources {
			fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			(&settings{}).register(fs)
			err := apply(fs, f.Name)
			if got := fs.Lookup(f.Name); err != nil || got.Value.String() != f.DefValue || given(fs)[f.Name] {
				t.Errorf("--%s from %s is %q, given: %t, %v", f.Name, source, got.Value, given(fs)[f.Name], err)
			}
		}
	})
}

// An empty datastore is one that somebody forgot to fill in. It must not become a new, empty store.
func TestEmptyDatastore(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		file string
	}{
		"flag":     {args: []string{"--datastore", ""}},
		"variable": {env: map[string]string{"SQLSTORE_DATASTORE": ""}},
		"null":     {file: "datastore:\n"},
		"text":     {file: "datastore: ''\n"},
	} {
		if _, err := read(t, c.args, c.env, c.file); err == nil || !strings.Contains(err.Error(), errEmpty.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := read(t, []string{"--datastore", "sqlite:///a"}, map[string]string{"SQLSTORE_DATASTORE": ""}, "")
	if err != nil || s.config.Datastore != "sqlite:///a" {
		t.Errorf("the command line takes precedence: %+v, %v", s, err)
	}
}

func TestFileFromEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("name: n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(t, nil, map[string]string{"SQLSTORE_CONFIG_FILE": path}, "")
	if err != nil || s.config.Name != "n" || s.config.DataDir != "n.sqlstore" {
		t.Fatalf("%+v, %v", s, err)
	}
}

// The environment and the file can set every flag except --help and --config-file.
func TestEverySettingHasAllThreeForms(t *testing.T) {
	values := map[string]string{
		"tls-min-version": "TLS1.3", "cipher-suites": "TLS_AES_128_GCM_SHA256",
		"log-level": "debug", "log-format": "console", "metrics": "extensive",
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	(&settings{}).register(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config-file" {
			return
		}
		value := values[f.Name]
		if value == "" {
			value = map[string]string{
				"bool": "true", "int": "7", "int64": "7", "uint": "7", "uint32": "7",
				"duration": "7s", "bytes": "7",
			}[f.Value.Type()]
		}
		if value == "" {
			value = "x"
		}
		for source, apply := range map[string]func(*pflag.FlagSet) error{
			"environment": func(fs *pflag.FlagSet) error {
				return applyEnvironment(fs, map[string]bool{}, func(name string) (string, bool) {
					return value, name == variable(f.Name)
				})
			},
			"file": func(fs *pflag.FlagSet) error {
				return applyFile(fs, map[string]bool{},
					[]byte(f.Name+": "+value))
			},
		} {
			fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			(&settings{}).register(fs)
			if err := apply(fs); err != nil {
				t.Errorf("--%s from %s: %v", f.Name, source, err)
			} else if got := strings.Trim(fs.Lookup(f.Name).Value.String(), "[]"); got != value {
				t.Errorf("--%s from %s is %q, want %q", f.Name, source, got, value)
			}
		}
	})
}

func TestRefusedSettings(t *testing.T) {
	setting.UseFlags(flagOf)
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		file string
		want []string // all parts of the error
	}{
		"unknown keys": {file: "name: x\nfoo: 1\nlisten-client-url: http://127.0.0.1:1\n", want: []string{
			`line 2: unknown key "foo"`, `line 3: unknown key "listen-client-url"; did you mean listen-client-urls?`,
		}},
		"file names a file": {file: "config-file: x\n", want: []string{`unknown key "config-file"`}},
		"not YAML":          {file: "name: [", want: []string{"config.yaml"}},
		"not a map":         {file: "- name\n", want: []string{"config.yaml"}},
		"two documents": {file: "name: a\n---\naudit-log: /a\n", want: []string{
			"config.yaml", "line 2: only one YAML document is read",
		}},
		"given twice":        {file: "name: a\nname: b\n", want: []string{"already defined"}},
		"list for one value": {file: "name: [a, b]\n", want: []string{"line 1: name: takes one value"}},
		"map for a value":    {file: "name: {a: b}\n", want: []string{"name: takes a plain value"}},
		"number in file": {file: "name: x\nmax-txn-ops: many\n", want: []string{
			`line 2: max-txn-ops: --max-txn-ops "many": write a whole number, 0 or more`,
		}},
		"number in variable": {
			env: map[string]string{"SQLSTORE_DATASTORE_MAX_CONNECTIONS": "many"}, want: []string{
				`SQLSTORE_DATASTORE_MAX_CONNECTIONS: --datastore-max-connections "many": write a whole number`,
			},
		},
		"truth in variable": {
			env:  map[string]string{"SQLSTORE_CLIENT_CERT_AUTH": "yes"},
			want: []string{`SQLSTORE_CLIENT_CERT_AUTH: --client-cert-auth "yes": write true or false`},
		},
		"duration in file": {file: "datastore-wait: 5\n", want: []string{
			`line 1: datastore-wait: --datastore-wait "5": write a number with a unit, such as 500ms, 30s, 5m`,
		}},
		"level":   {args: []string{"--log-level", "loud"}, want: []string{"--log-level", "loud"}},
		"format":  {args: []string{"--log-format", "xml"}, want: []string{"--log-format", "xml"}},
		"metrics": {args: []string{"--metrics", "some"}, want: []string{"--metrics", "some"}},
		"compaction mode": {
			args: []string{"--auto-compaction-mode", "x"},
			want: []string{"--auto-compaction-mode", "x"},
		},
		"retention": {args: []string{"--auto-compaction-retention", "x"}, want: []string{"retention", "x"}},
		"TLS version": {
			args: []string{"--tls-min-version", "SSL3"},
			want: []string{"--tls-min-version", "SSL3"},
		},
		"cipher suite": {
			args: []string{"--cipher-suites", "ROT13"},
			want: []string{"--cipher-suites", "ROT13"},
		},
		"no listeners": {
			args: []string{"--listen-client-urls", ""},
			want: []string{"--listen-client-urls names no URL"},
		},
		"no listeners in file": {file: "listen-client-urls: []\n", want: []string{"--listen-client-urls names no URL"}},
		"version in file":      {file: "version: true\n", want: []string{`unknown key "version"`}},
		"no operations":        {args: []string{"--max-txn-ops", "0"}, want: []string{"--max-txn-ops"}},
		"no bytes":             {args: []string{"--max-request-bytes", "0"}, want: []string{"--max-request-bytes"}},
		"size": {
			args: []string{"--quota-backend-bytes", "8XB"},
			want: []string{"--quota-backend-bytes", "8GiB"},
		},
		"no streams": {
			args: []string{"--max-concurrent-streams", "0"},
			want: []string{"--max-concurrent-streams"},
		},
		"negative wait":      {args: []string{"--datastore-wait", "-1s"}, want: []string{"--datastore-wait"}},
		"negative staleness": {args: []string{"--datastore-max-staleness", "-1s"}, want: []string{"max-staleness"}},
		"negative reserve":   {args: []string{"--disk-reserve-bytes", "-1MiB"}, want: []string{"--disk-reserve-bytes"}},
		"negative interval": {
			args: []string{"--grpc-keepalive-interval", "-1s"}, want: []string{"keepalive-interval"},
		},
		"negative timeout": {args: []string{"--grpc-keepalive-timeout", "-1s"}, want: []string{"keepalive-timeout"}},
		"negative warning": {args: []string{"--warning-apply-duration", "-1s"}, want: []string{"warning-apply"}},
		"interval without backups": {
			args: []string{"--backup-interval=1m"},
			want: []string{"--backup-interval has no effect without --backup-to"},
		},
		"full backups without backups": {
			file: "backup-full-interval: 1h\n", want: []string{"--backup-full-interval has no effect without"},
		},
		"keep without backups": {
			env:  map[string]string{"SQLSTORE_BACKUP_KEEP": "30d"},
			want: []string{"--backup-keep has no effect without"},
		},
		"recipient without backups": {
			args: []string{"--backup-recipient=age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
			want: []string{"--backup-recipient has no effect without"},
		},
		"writes without a console": {
			file: "console-writes: true\n",
			want: []string{"--console-writes has no effect without --listen-console-urls"},
		},
		"no progress interval": {
			args: []string{"--watch-progress-notify-interval", "0s"},
			want: []string{"--watch-progress-notify-interval"},
		},
	} {
		_, err := read(t, c.args, c.env, c.file)
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q in it", name, err, part)
			}
		}
	}
	if _, err := read(t, []string{"--config-file", filepath.Join(t.TempDir(), "none")}, nil, ""); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// The flags of etcd that a caller may rely on. Command lines in use break if one is removed or renamed.
func TestFlagsOfEtcd(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	(&settings{}).register(flags)
	for name, byDefault := range map[string]string{
		"name": "", "data-dir": "", "listen-client-urls": "[http://localhost:2379]",
		"advertise-client-urls": "[]",
		"listen-metrics-urls":   "[]", "cert-file": "", "key-file": "", "trusted-ca-file": "",
		"client-cert-auth": "false",
		"cipher-suites":    "[]", "tls-min-version": "TLS1.2", "quota-backend-bytes": "0", "max-txn-ops": "128",
		"max-request-bytes": "1572864", "max-concurrent-streams": "4294967295", "grpc-keepalive-min-time": "5s",
		"grpc-keepalive-interval": "2h0m0s", "grpc-keepalive-timeout": "20s", "auto-compaction-mode": "periodic",
		"auto-compaction-retention": "0", "log-level": "info", "metrics": "basic", "enable-pprof": "false",
		"unsafe-no-fsync": "false", "config-file": "", "cors": "[]", // etcd's * lets any web page in
		"warning-unary-request-duration": "300ms",
		"log-format":                     "auto", // JSON as in etcd, except on a terminal
		"host-whitelist":                 "[]",   // etcd's * lets any web page in
		"watch-progress-notify-interval": "5s",   // 10 minutes in etcd; kube-apiserver needs 5 s
	} {
		f := flags.Lookup(name)
		if f == nil || f.DefValue != byDefault {
			t.Errorf("--%s: %+v, want default %q", name, f, byDefault)
		}
	}
}
