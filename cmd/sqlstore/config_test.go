package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err := os.WriteFile(file, []byte("max-txn-ops: 5\nname: of-the-file\n"), 0o600); err != nil {
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
		"metrics basic default",
	} {
		if !strings.Contains(out, "\n"+line+"\n") && !strings.HasPrefix(out, line+"\n") {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	out, err := configure("check", "--data-dir", "/data")
	if want := "Found no error. A server with these settings uses the database /data/sqlstore.db.\n"; out != want ||
		err != nil {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	for _, c := range []struct{ args, want string }{
		{"--log-level=loud", "--log-level"},
		{"--cert-file=/none --key-file=/none", "/none"},
		{"--listen-client-urls=127.0.0.1:2379", "the scheme is missing"},
		{"--auto-compaction-retention=1x", "Retention"},
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
	t.Setenv("SQLSTORE_DATA_DRI", "/x")
	if _, err := configure("check"); err == nil || !strings.Contains(err.Error(), "SQLSTORE_DATA_DIR") {
		t.Errorf("an unknown variable: %v", err)
	}
}
