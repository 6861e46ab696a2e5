package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

func doctor(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(append([]string{"doctor"}, args...))
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

// Settings that a start refuses are a failure, which the exit code and the summary show; others are examined.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	out, err := doctor("--data-dir", dir)
	if err != nil || !strings.Contains(out, "sync latency") || !strings.Contains(out, "\nfailures: 0, warnings: ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = doctor("--data-dir", dir, "--listen-client-urls", "https://127.0.0.1:1")
	if code, ok := errors.AsType[exitCode](err); !ok || code != 1 || !strings.Contains(out, "needs a certificate") ||
		!strings.Contains(out, "\nfailures: 1, ") || strings.Contains(out, "sync latency") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = doctor("--data-dir", dir, "--auto-compaction-retention", "1x", "-o", "json")
	if code, ok := errors.AsType[exitCode](err); !ok || code != 1 || !strings.Contains(out, `"severity": "failure"`) ||
		!strings.Contains(out, "is neither a duration nor a number of hours") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := doctor("--data-dir", dir, "-o", "xml"); !errors.Is(err, errSettings) || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A certificate of an hour, as the authority issues it, is not expiring yet.
func TestDoctorCertificates(t *testing.T) {
	dir := t.TempDir()
	certPEM, keyPEM := authority.New(t).Issue("server")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, text := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := doctor("--data-dir", dir, "--cert-file", cert, "--key-file", key, "-o", "json")
	var findings []struct{ Severity, Subject, Detail, Advice string }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &findings)); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range findings {
		if f.Subject == "certificate" {
			found = f.Severity == "ok" && strings.HasPrefix(f.Detail, cert+" is valid until ")
		}
	}
	if !found {
		t.Errorf("%+v", findings)
	}
}
