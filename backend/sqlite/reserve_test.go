package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

const reserveSize = 1 << 20

// openReserved opens a database with a reserve, once the background work has checked it.
func openReserved(t *testing.T, path string) *Backend {
	t.Helper()
	b := openTest(t, Config{Path: path, ReserveBytes: reserveSize})
	b.reserve.stop()
	b.reserve.check(t.Context())
	return b
}

// wantReserve looks for a reserve of that size on the disk and in memory, 0 for one that is released.
func wantReserve(t *testing.T, b *Backend, when string, size int64) {
	t.Helper()
	info, err := os.Stat(b.path + ".reserve")
	if err != nil || info.Size() != size || b.Reserved() != size {
		t.Fatalf("%s the reserve is %v, %v, of which %d bytes are known; want %d", when, info, err, b.Reserved(), size)
	}
	if size > 0 && allocated(info) < size {
		t.Errorf("%s %d bytes of the reserve are allocated", when, allocated(info))
	}
	if err := b.OutOfSpace(); (err != nil) != (size == 0) || err != nil && !errors.Is(err, backend.ErrNoSpace) {
		t.Errorf("%s new rows get %v", when, err)
	}
}

// fillUp writes new rows until the disk is full, and returns the last revision.
func fillUp(t *testing.T, b *Backend) int64 {
	t.Helper()
	value := bytes.Repeat([]byte{1}, 50_000)
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = write(b, "k"+strconv.Itoa(n), value)
	}
	if !errors.Is(err, backend.ErrNoSpace) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return revision(t, b)
}

// removeAll deletes the keys of fillUp, compacts, and gives the space back.
func removeAll(t *testing.T, b *Backend, upTo int64) {
	t.Helper()
	tx, err := b.Begin(t.Context(), backend.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	next := tx.Loaded().Clock.Revision + 1
	e := &backend.Effects{Revision: next, Compacted: next}
	for at := int64(2); at <= upTo; at++ {
		e.Rows = append(e.Rows, backend.Row{
			Key: []byte("k" + strconv.Itoa(int(at-2))), ModRevision: next, Ordinal: int32(at - 2), Deleted: true,
			PrevRevision: at,
		})
	}
	if err := tx.Commit(t.Context(), e); err != nil {
		t.Fatalf("delete and compact on the reserve: %v", err)
	}
	purge(t, b)
	if err := b.Defragment(t.Context()); err != nil {
		t.Fatalf("defragment on the reserve: %v", err)
	}
}

// The reserve is released on a full disk, deletes and compaction go on with it, and it comes back when there is room.
func TestReserve(t *testing.T) {
	smalldisk.Run(t, "14m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "db")
		b := openReserved(t, path)
		b.checkpoints.stop() // this reserve is smaller than the WAL may be, whose copying could take all of it
		wantReserve(t, b, "at the start", reserveSize)
		last := fillUp(t, b)
		wantReserve(t, b, "on the full disk", 0)
		b.reserve.check(t.Context())
		wantReserve(t, b, "while the disk is full", 0)
		removeAll(t, b, last)
		b.reserve.check(t.Context())
		wantReserve(t, b, "when there is room", reserveSize)
		if err := write(b, "again", bytes.Repeat([]byte{1}, 50_000)); err != nil {
			t.Error(err)
		}
	})
}

// A restart knows that the reserve is released, and releases one that keeps it from starting.
func TestReserveAfterARestart(t *testing.T) {
	smalldisk.Run(t, "14m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "db")
		b := openReserved(t, path)
		other := filepath.Join(dir, "other")
		free, err := freeBytes(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(other, make([]byte, free-startBytes/2), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openReserved(t, path)
		wantReserve(t, b, "after a start on a full disk", 0)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openReserved(t, path)
		wantReserve(t, b, "after the next", 0)
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		b.reserve.check(t.Context())
		wantReserve(t, b, "when there is room", reserveSize)
	})
}

// The reserve is made only where there is ample room, follows its setting, and goes with it.
func TestReserveIsConfigured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for _, c := range []struct {
		size, want int64
	}{{math.MaxInt64 / 64, -1}, {2 << 20, 2 << 20}, {1 << 20, 1 << 20}, {0, 1 << 20}, {-1, -1}} {
		var log bytes.Buffer
		b := openTest(t, Config{
			Path: path, ReserveBytes: c.size, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
				Level: slog.LevelWarn,
			})),
		})
		if warned := strings.Contains(log.String(), "larger than its file system"); warned != (c.size > 1<<50) {
			t.Errorf("with %d bytes configured it logs %q", c.size, log.String())
		}
		if r := b.reserve; r != nil {
			r.stop()
			r.check(t.Context())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + ".reserve")
		switch {
		case errors.Is(err, os.ErrNotExist) && c.want == -1:
		case err != nil:
			t.Errorf("with %d bytes configured: %v", c.size, err)
		case info.Size() != c.want:
			t.Errorf("with %d bytes configured it has %d", c.size, info.Size())
		}
	}
}

// Where the file system cannot allocate, all of the file is written.
func TestReserveIsWritten(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	const size = 3<<19 + 1
	if err := fill(t.Context(), f, size); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != size || allocated(info) < size {
		t.Error(info, err)
	}
}
