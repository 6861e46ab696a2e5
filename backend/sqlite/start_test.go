package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// TestRefusedStart starts on a damaged file repeatedly, as a supervisor does, and after a start that was killed.
func TestRefusedStart(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	id := binary.BigEndian.AppendUint64(nil, b.settings.ClusterID)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]int{"first page": 63, "settings": bytes.Index(whole, id) + 3} {
		flipInPlace(t, path, int64(at))
		for range 3 {
			wantOpenError(t, path, ErrCorrupt, "")
		}
		ctx, kill := context.WithCancel(t.Context())
		kill()
		if _, err := Open(ctx, Config{Path: path}); err == nil {
			t.Errorf("%s: a cancelled start succeeded", what)
		}
		wantOpenError(t, path, ErrCorrupt, "")
		flipInPlace(t, path, int64(at))
	}
}

// A start that is killed after it has copied the log of a crash leaves a file that only this program has written to.
func TestKilledStart(t *testing.T) {
	path, _ := crashed(t)
	lock, err := lockFile(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	file, err := pagesum.OpenFile(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	killed := &Backend{log: slog.Default(), path: path, lock: lock, file: file}
	defer func() { _ = errors.Join(file.Close(), lock.Close()) }()
	own := func() bool {
		log, err := checkLog(t.Context(), path, true, true)
		n, errNote := readNote(lock)
		return errors.Join(err, errNote) == nil && n.writtenHere(path, log.filled) && log.filled == log.belongs
	}
	if !own() {
		t.Fatal("after the crash, the file is taken for another program's")
	}
	if err := killed.prepareOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the log remains", err)
	}
	if !own() {
		t.Error("the next start takes the file for another program's")
	}
}
