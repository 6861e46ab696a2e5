package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

func revision(t *testing.T, b *Backend) int64 {
	t.Helper()
	c, err := b.Clock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c.Revision
}

// TestNoSpace lets the database reach its maximum size, then raises that.
func TestNoSpace(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	pages, err := b.writer.queryInt("PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	bound := func(pages int64) {
		t.Helper()
		if got, err := b.writer.queryInt("PRAGMA max_page_count = " + strconv.FormatInt(pages, 10)); err != nil ||
			got != pages {
			t.Fatal(got, err)
		}
	}
	bound(pages + 20)
	value := bytes.Repeat([]byte{1}, 9000)
	n := 0
	for ; err == nil; n++ {
		err = write(b, "k"+strconv.Itoa(n), value)
	}
	if !errors.Is(err, backend.ErrNoSpace) || n < 3 {
		t.Fatalf("after %d writes: %v", n, err)
	}
	if r := revision(t, b); r != int64(n) {
		t.Errorf("revision %d after %d writes", r, n-1)
	}
	if err := write(b, "small", nil); err != nil && !errors.Is(err, backend.ErrNoSpace) {
		t.Error(err)
	}
	bound(pages + 1000)
	if err := write(b, "again", value); err != nil {
		t.Error(err)
	}
}

// checkpointing stops the checkpointer, so that the test makes its rounds itself, and returns a connection for them.
func checkpointing(t *testing.T, b *Backend) (*checkpointer, *conn) {
	t.Helper()
	b.checkpoints.stop()
	c, err := connect(b.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return b.checkpoints, c
}

// A failed sync outside of a commit makes written data as uncertain as one within a commit.
func TestFailedSyncBesideTheWriter(t *testing.T) {
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	p, c := checkpointing(t, b)
	if err := write(b, "a", nil); err != nil {
		t.Fatal(err)
	}
	file := b.file
	defer func() { b.file = file }()
	b.file = &pagesum.File{} // closed
	p.limit = 1              // so that the WAL has to restart
	p.once(t.Context(), c, alone)
	if err := write(b, "b", nil); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Errorf("write: %v", err)
	}
}

// TestFullDisk is the same on a full file system.
func TestFullDisk(t *testing.T) { smalldisk.Run(t, "4m", fillDisk) }

func fillDisk(t *testing.T, dir string) {
	b := openTest(t, Config{Path: filepath.Join(dir, "db")})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte{1}, 50_000)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = write(b, "k"+strconv.Itoa(n), value)
	}
	if !errors.Is(err, backend.ErrNoSpace) {
		t.Fatalf("after %d writes: %v", n, err)
	}
	if err := b.Defragment(t.Context()); !errors.Is(err, backend.ErrNoSpace) {
		t.Errorf("defragment: %v", err)
	}
	if _, err := os.Stat(b.defragmented()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy that did not fit is left behind: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := write(b, "again", value); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: filepath.Join(dir, "db")})
	if r := revision(t, b); r != int64(n)+1 {
		t.Errorf("revision %d after %d writes", r, n)
	}
}

// A database on a read-only disk is not opened, not even to read it, and the error says what to do.
func TestReadOnlyDisk(t *testing.T) {
	smalldisk.Run(t, "4m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "db")
		if err := openTest(t, Config{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		smalldisk.MakeReadOnly(t, dir)
		wantOpenError(t, path, syscall.EROFS, "open the copy")
	})
}

// TestNoteOnFullDisk writes the note file to a device that is always full.
func TestNoteOnFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	b.checkpoints.stop() // it notes, too
	lock := b.lock
	defer func() {
		b.lock = lock
		_ = full.Close()
	}()
	b.lock = full
	if err := b.note(ownPages); err != nil {
		t.Error(err)
	}
}

// TestCommitOfUnknownOutcome makes the write of a COMMIT fail through a limit on file sizes, which does not count as a
// full disk.
func TestCommitOfUnknownOutcome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	if err := write(b, "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err := write(b, "big", make([]byte, 2<<20))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Fatalf("commit: %v", err)
	}
	ctx := context.Background()
	if _, err := b.Begin(ctx, backend.Needs{}); !errors.Is(err, backend.ErrUnknownOutcome) ||
		!strings.Contains(err.Error(), "restart") {
		t.Errorf("begin: %v", err)
	}
	if err := b.Refused(); err != nil { // a restart repairs it
		t.Errorf("Refused: %v", err)
	}
	if _, err := b.Purge(ctx, 1, math.MaxInt64); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Errorf("purge: %v", err)
	}
	if err := b.Defragment(ctx); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Errorf("defragment: %v", err)
	}
	rows, _, err := b.Range(ctx, backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: 2, Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Errorf("committed rows are no longer readable: %v, %v", rows, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	if r := revision(t, b); r != 2 {
		t.Errorf("revision %d after a restart", r)
	}
	if err := write(b, "b", nil); err != nil {
		t.Error(err)
	}
}

// TestTooBig passes SQLite a value that it refuses.
func TestTooBig(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	b.writer.c.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, 1<<20)
	if err := write(b, "a", make([]byte, 2<<20)); !errors.Is(err, backend.ErrRejected) {
		t.Error(err)
	}
	if err := write(b, "a", make([]byte, 1<<19)); err != nil {
		t.Error(err)
	}
}

// A server stops using its database after a program that ignores the lock has changed it. The next start knows an
// older state, as the restore of a backup leaves it.
func TestAnotherProgram(t *testing.T) {
	for name, change := range map[string]int64{"newer": 1, "older": -1} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a", "b")
			acknowledged := revision(t, b)
			edit(t, path, fmt.Sprint("UPDATE clock SET revision = revision + ", change))
			if err := write(b, "c", nil); !errors.Is(err, errOverwritten) {
				t.Error(err)
			}
			if rows, err := list(t, b); !errors.Is(err, errOverwritten) {
				t.Error(rows, err)
			}
			if n, err := readNote(b.lock); err != nil || !n.foreign() {
				t.Errorf("noted %v, %v", n, err)
			}
			crashed := crashCopy(t, path)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			for _, path := range []string{crashed, path} {
				b := openAfterRestore(t, path)
				restored := b.Restored().Revision
				if r := revision(t, b); r != acknowledged+change || change < 0 && restored != acknowledged {
					t.Errorf("revision %d, restored to %d; acknowledged: %d", r, restored, acknowledged)
				}
			}
		})
	}
}

// TestWALIsBounded writes steadily several times what the WAL may hold.
func TestWALIsBounded(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	value := bytes.Repeat([]byte{1}, 1<<20)
	for i := range 6 * walLimit >> 20 {
		if err := write(b, "k"+strconv.Itoa(i%7), value); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(b.path + "-wal")
	if err != nil || info.Size() > 3*walLimit {
		t.Errorf("WAL of %d bytes, %v", info.Size(), err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
