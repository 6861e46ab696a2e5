package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The man pages have every command that people use, and the date of the source.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if out, err := sqlstore(t, "man", dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{
		"sqlstore.1":             "sqlstore-backup(1)",
		"sqlstore-serve.1":       `\fB--datastore-password-file\fP=""`,
		"sqlstore-backup-list.1": `"Nov 2023"`,
	} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(page), want) {
			t.Errorf("%s lacks %s:\n%s", name, want, page)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sqlstore-man.1")); err == nil {
		t.Error("there is a page of the hidden command")
	}
}
