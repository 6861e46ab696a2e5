package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// A server says where its backups go, without secrets, and when it has saved everything last.
func TestBackupStatus(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := launch.Start(t, launch.Config{Args: []string{"--backup-to", "file://" + dir, "--backup-interval=50ms"}})
	for deadline := time.Now().Add(20 * time.Second); ; {
		out, err := sqlstore(t, "status", "--endpoint", s.ClientURL())
		if strings.Contains(out, "\nbackups to "+dir+", saved up to revision 1 at 20") {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s, %v", out, err)
		}
	}
	wantOutput(t, false, `"destination": "`+dir+`"`, "status", "--endpoint", s.ClientURL(), "-o", "json")
}

// A recipient that is empty leaves backups without encryption, and a warning says so.
func TestEmptyRecipient(t *testing.T) {
	t.Setenv("SQLSTORE_BACKUP_RECIPIENT", "")
	t.Setenv("SQLSTORE_RECIPIENT", "")
	dir, l := t.TempDir(), newLog()
	s := launch.Start(t, launch.Config{Args: []string{"--backup-to", filepath.Join(dir, "continuous")}, Log: l})
	l.wait(t, "protections are off", "SQLSTORE_BACKUP_RECIPIENT")
	wantOutput(t, false, "protections are off: give each a value, or leave it out: SQLSTORE_RECIPIENT\n", "backup",
		"--from", s.ClientURL(), "--to", filepath.Join(dir, "whole"))
}

// What the commands for backups print and refuse; package test/backups tests what they write.
func TestBackups(t *testing.T) {
	t.Parallel()
	s := launch.Start(t, launch.Config{})
	if _, err := connect(t, s.Endpoint()).Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backups")
	wantOutput(t, true, "--to is required", "backup", "--from", s.ClientURL())
	wantOutput(t, true, "--from is required", "backup", "list")
	wantOutput(t, true, "no such file or directory", "backup", "list", "--from", dir)
	wantOutput(t, false, "1 row up to revision 2\n", "backup", "--from", s.ClientURL(), "--to", dir)
	wantOutput(t, false, ", 0 problems; restores up to revision 2\n", "backup", "verify", "--from", dir)
	wantOutput(t, true, "without a revision or time, the newest state is restored", "restore", "--from", dir,
		"--to-revision=3", "--data-dir", filepath.Join(t.TempDir(), "d"))
	restored := filepath.Join(t.TempDir(), "d")
	wantOutput(t, false, "source and target are equal", "restore", "--from", dir, "--data-dir", restored)
	server, opened := launch.Start(t, launch.Config{DataDir: restored}), `"opened the database"`
	for began := time.Now(); !strings.Contains(server.Log(), opened); { // once it is ready, it counts its keys
		if time.Since(began) > time.Minute {
			t.Fatalf("the log of a restored store: %s", server.Log())
		}
	}
	if log := server.Log(); strings.Contains(log, "written-by") { // no server has
		t.Errorf("the log of a restored store: %s", log)
	}
	wantOutput(t, true, "--keep must be positive", "backup", "prune", "--from", dir, "--keep=0s")

	const chain = "20261125T171300Z-8e9d4c5b6a7f1023"
	changes := filepath.Join(dir, chain, "0000000000000001299-after-0000000000000001234-20261125T171305.120Z.zst")
	if err := os.Mkdir(filepath.Dir(changes), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, true, chain+": its full backup is missing", "backup", "verify", "--from", dir)

	full, err := filepath.Glob(filepath.Join(dir, "*", "*-full-*.zst"))
	if err != nil || len(full) != 1 {
		t.Fatal(full, err)
	}
	if err := os.Rename(changes, filepath.Join(filepath.Dir(full[0]), filepath.Base(changes))); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, false, ": the files of revisions 3 to 1234 are missing", "backup", "list", "--from", dir)
	wantOutput(t, true, "files of a backup are missing: those of revisions 3 to 1234", "restore", "--from", dir,
		"--data-dir", filepath.Join(t.TempDir(), "d"))
}
