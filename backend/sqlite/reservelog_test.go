package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

// rowsAtOnce are so many that the log runs far ahead of the file.
const rowsAtOnce = 20

func numbered(revision int64, n int32) []byte { return fmt.Appendf(nil, "k%d-%d", revision, n) }

// change commits the next revision.
func change(t *testing.T, b *Backend, fill func(e *backend.Effects)) error {
	t.Helper()
	tx, err := b.Begin(t.Context(), backend.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	e := &backend.Effects{Revision: tx.Loaded().Clock.Revision + 1}
	fill(e)
	return tx.Commit(t.Context(), e)
}

// The reserve has room in the file for a log that ran ahead of it, so deletes and compaction go on, and while the disk
// is full the file gives back its slack, too.
func TestReserveHoldsTheLog(t *testing.T) {
	smalldisk.Run(t, "400m", func(t *testing.T, dir string) {
		const size = 32 << 20
		b := openTest(t, Config{Path: filepath.Join(dir, "db"), ReserveBytes: size})
		b.reserve.stop()
		b.reserve.check(t.Context())
		wantReserve(t, b, "at the start", size)
		value := bytes.Repeat([]byte{1}, 10_000)
		for b.OutOfSpace() == nil {
			err := change(t, b, func(e *backend.Effects) {
				for n := range int32(rowsAtOnce) {
					e.Rows = append(e.Rows, backend.Row{
						Key: numbered(e.Revision, n), ModRevision: e.Revision, CreateRevision: e.Revision, Version: 1,
						Ordinal: n, Value: value,
					})
				}
			})
			if err != nil && !errors.Is(err, backend.ErrNoSpace) {
				t.Fatal(err)
			}
		}
		wantReserve(t, b, "on the full disk", 0)
		b.reserve.check(t.Context())
		wantReserve(t, b, "while the disk is full", 0)
		const some = 4 // of which one is deleted
		last := revision(t, b)
		for at := int64(2); at <= last; at += some {
			err := change(t, b, func(e *backend.Effects) {
				e.Compacted = e.Revision
				for n := range int32(rowsAtOnce) {
					e.Rows = append(e.Rows, backend.Row{
						Key: numbered(at, n), ModRevision: e.Revision, Ordinal: n, Deleted: true, PrevRevision: at,
					})
				}
			})
			if err != nil {
				t.Fatalf("delete and compact on the reserve: %v", err)
			}
		}
		purge(t, b)
		for done := false; !done; {
			var err error
			if done, _, err = b.Reclaim(t.Context(), 64); err != nil {
				t.Fatalf("give space back on the reserve: %v", err)
			}
		}
		if free, err := b.writer.queryInt("PRAGMA freelist_count"); err != nil || free != 0 {
			t.Errorf("%d free pages are left, %v", free, err)
		}
		b.checkpoints.stop() // it would keep the other one from it
		if _, err := b.writer.queryInts("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		b.reserve.check(t.Context())
		wantReserve(t, b, "when there is room", size)
		if err := write(b, "again", value); err != nil {
			t.Error(err)
		}
	})
}
