package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// configure runs a subcommand of config and returns its output with single spaces.
func configure(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(append([]string{"config"}, args...))
	cmd.SetOut(&out)
	err := cmd.Execute()
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n"), err
}

func TestConfigShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("max-txn-ops: 5\nname: of-the-file\ncors: [https://a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SQLSTORE_NAME", "of-the-variable")
	t.Setenv("SQLSTORE_DATASTORE", "postgres://u:secret@h/d")
	out, err := configure("show", "--config-file", file, "--log-level=warn")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"SETTING VALUE FROM", "config-file " + file + " --config-file", "name of-the-variable SQLSTORE_NAME",
		"datastore postgres://u:xxxxx@h/d SQLSTORE_DATASTORE", "max-txn-ops 5 " + file, "log-level warn --log-level",
		"cors https://a " + file,
		"metrics basic default", "listen-client-urls http://localhost:2379 default", "audit-log (off) default",
		"datastore-max-connections 16 default", "quota-backend-bytes -1 default",
		"data-dir of-the-variable.sqlstore default",
	} {
		if !strings.Contains(out, "\n"+line+"\n") && !strings.HasPrefix(out, line+"\n") {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

// The values for programs have types, and are those that the start computes.
func TestConfigShowJSON(t *testing.T) {
	out, err := configure("show", "-o", "json", "--cache-bytes=1MiB", "--cors", "https://a,https://b")
	var all []struct {
		Setting, Meaning, From string
		Value                  any
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &all)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range all {
		value, err := json.Marshal(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Setting] = strings.TrimSpace(string(value) + " " + s.Meaning)
	}
	for setting, want := range map[string]string{
		"name": `"default"`, "data-dir": `"default.sqlstore"`, "quota-backend-bytes": "2147483648",
		"cache-bytes": "1048576", "cors": `["https://a","https://b"]`, "enable-grpc-gateway": "true",
		"listen-console-urls": "[] off", "datastore-wait": `"1m0s"`, "max-txn-ops": "128", "audit-log": `"" off`,
	} {
		if got[setting] != want {
			t.Errorf("%s is %s, want %s", setting, got[setting], want)
		}
	}
	if _, is := got["output"]; is || len(got) < 60 {
		t.Errorf("%d settings, output %t", len(got), is)
	}
}

func TestConfigCheck(t *testing.T) {
	setting.UseFlags(flagOf)
	out, err := configure("check", "--data-dir", "/data")
	if want := "Found no error. A server with these settings uses the database /data/sqlstore.db.\n"; out != want ||
		err != nil {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	for _, c := range []struct{ args, want string }{
		{"--log-level=loud", "--log-level"},
		{"--cert-file=/none --key-file=/none", "/none"},
		{"--listen-client-urls=127.0.0.1:2379", "the scheme is missing"},
		{"--auto-compaction-retention=1x", "--auto-compaction-retention"},
		{"--listen-client-urls=http://127.0.0.1:99999", "the port 99999 is not from 0 to 65535"},
		{"--distributed-tracing-sampling-rate=2000000", "--distributed-tracing-sampling-rate is 2000000"},
		{"--backup-to=/b --backup-keep=1ns", "is 1ns: it must be at least 1m0s"},
		{"--backup-to=/b --backup-interval=1h --backup-full-interval=1m", "is 1m0s: it must be at least 1h0m0s"},
		{"--datastore=postgres://h/d?target_session_attrs=read-only", "leave it out, or make it read-write"},
		{"--datastore=postgres://h/d?pool_max_conns=0", `pool_max_conns in the DSN is "0": it must be at least 4`},
		{"--auto-tls --self-signed-cert-validity=99999999999999", "is 99999999999999: it must be at most 1000"},
		{"--datastore=sqlite://", "write sqlite:///path/to/file"},
		{"--datastore-max-connections=8", "--datastore-max-connections is for Postgres"},
		{"--datastore=mysql://h/d --datastore-max-connections=8", `the unknown kind "mysql"`},
		{"--tls-min-version=TLS1.3 --cipher-suites=TLS_AES_128_GCM_SHA256", "--tls-min-version excludes"},
		{"--tls-min-version=TLS1.3 --tls-max-version=TLS1.2", "--tls-max-version is older than --tls-min-version"},
	} {
		if out, err := configure(append([]string{"check"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %q, %v; want %q", c.args, out, err, c.want)
		}
	}
	for _, datastore := range []string{
		"host=h password=secret", "postgres:/u:secret@h/d", "mysql://u:secret@h/d", "u:secret@h/d",
	} {
		if out, err := configure("show", "--datastore", datastore); err != nil || strings.Contains(out, "secret") {
			t.Errorf("%s: %v\n%s", datastore, err, out)
		}
	}
	for _, bucket := range []string{"s3://b?endpoint=http://u:secret@host&prefix=p/", "gs://u:se/secret@b"} {
		if out, err := configure("show", "--backup-to", bucket); err != nil || strings.Contains(out, "secret") {
			t.Errorf("%s: %v\n%s", bucket, err, out)
		}
	}
	for _, flag := range []string{"--name", "--cors"} {
		out, err := configure("show", flag, "postgres://u:secret@h/d")
		if err != nil || strings.Contains(out, "secret") {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
	t.Setenv("SQLSTORE_DATA_DRI", "/x")
	if _, err := configure("check"); err == nil || !strings.Contains(err.Error(), "SQLSTORE_DATA_DIR") {
		t.Errorf("an unknown variable: %v", err)
	}
}
