package faults

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := PasswordFile(file); f != nil {
		t.Errorf("a file: %+v", f)
	}
	for _, path := range []string{dir, file + ".none"} {
		if f := PasswordFile(path); f == nil || f.Reason != "PasswordFileUnreadable" {
			t.Errorf("%s: %+v", path, f)
		}
	}
}
