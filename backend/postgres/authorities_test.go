package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file for the certificates of authorities that has none is named.
func TestNoAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(dsn string) {
		t.Helper()
		err := CheckDSN(Config{DSN: dsn})
		if !errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), file) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	check("postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=" + file)
	check("host=h user=u password='a secret=' sslmode=verify-full sslrootcert = '" + file + "'")
	t.Setenv("PGSSLROOTCERT", file)
	check("postgres://u:secret@h/d?sslmode=verify-full")
	check("host=h password=secret sslmode=verify-full")
}
