package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file that is given up leaves nothing, and what a process that was killed has left is removed later.
func TestPartialFiles(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 17)
	w.change(10)
	c := w.full(r, milliseconds(time.Now()))
	defer c.close()
	w.change(10)
	ctx, stop := context.WithCancel(t.Context())
	name := Name{Chain: c.name, After: c.through, Revision: w.Revision(), At: milliseconds(time.Now())}
	file, err := r.create(ctx, name, &Header{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	chain := filepath.Join(r.Dir, c.name)
	if n := count(t, chain); n != 2 {
		t.Errorf("%d files while one is written, want it and the full backup", n)
	}
	stop()
	if _, err := file.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("a file whose context has ended: %v", err)
	}
	if n := count(t, chain); n != 1 {
		t.Errorf("%d files after one was given up", n)
	}

	killed := filepath.Join(r.Dir, chainName(time.Now().Add(-time.Hour), w.Settings().ClusterID))
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	left := []string{filepath.Join(chain, partialPrefix+"1"), filepath.Join(killed, partialPrefix+"2")}
	for _, path := range left {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prune := func() {
		t.Helper()
		if _, err := r.Prune(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if prune(); count(t, chain) != 2 || count(t, killed) != 1 {
		t.Error("a file that may still be written is removed")
	}
	old := time.Now().Add(-2 * abandoned)
	for _, path := range append(left, killed) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if n := count(t, chain); n != 1 {
		t.Errorf("%d files in the chain", n)
	}
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without a backup is left: %v", err)
	}
	w.close()
}

// A directory in which nothing can be written is an error.
func TestNoDirectory(t *testing.T) {
	r := directory(t)
	r.Dir = filepath.Join(r.Dir, "file")
	if err := os.WriteFile(r.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.create(t.Context(), Name{Chain: "chain", Full: true}, &Header{}); err == nil {
		t.Error("a file is a directory")
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
