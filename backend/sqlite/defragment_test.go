package sqlite

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// fragment writes rows and removes most of them again.
func fragment(t *testing.T, b *Backend) (rows []backend.Row) {
	t.Helper()
	value := bytes.Repeat([]byte{1}, 5000)
	for i := range 400 {
		if err := write(b, "k"+strconv.Itoa(i%10), value); err != nil {
			t.Fatal(err)
		}
	}
	e := &backend.Effects{Revision: revision(t, b), Compacted: revision(t, b)}
	tx, err := b.Begin(t.Context(), backend.Needs{})
	if err == nil {
		err = tx.Commit(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	purge(t, b)
	return listAll(t, b)
}

// purge removes all rows that are compacted.
func purge(t *testing.T, b *Backend) {
	t.Helper()
	for done := false; !done; {
		res, err := b.Purge(t.Context(), 100, math.MaxInt64)
		if err != nil {
			t.Fatalf("purge: %v", err)
		}
		done = res.Done
	}
}

func listAll(t *testing.T, b *Backend) []backend.Row {
	t.Helper()
	rows, _, err := b.Range(t.Context(),
		backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: revision(t, b), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestDefragment frees unused pages, leaves no file behind, and removes one that a crash left.
func TestDefragment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	before := fragment(t, b)
	size, err := b.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := b.Size(t.Context())
	if err != nil || after.Total != after.InUse || after.Total > size.InUse {
		t.Errorf("%+v, then %+v, %v", size, after, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != after.Total {
		t.Errorf("a file of %d bytes with %d in use, %v", info.Size(), after.Total, err)
	}
	same := func() {
		t.Helper()
		rows := listAll(t, b)
		for i := range rows {
			if len(rows) != len(before) || rows[i].ModRevision != before[i].ModRevision ||
				!bytes.Equal(rows[i].Value, before[i].Value) {
				t.Fatalf("%d rows, then %d; the first difference is row %d", len(before), len(rows), i)
			}
		}
	}
	same()
	const check = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"
	if ok, err := b.writer.queryInt(check); err != nil || ok != 1 {
		t.Errorf("integrity: %d, %v", ok, err)
	}
	if err := os.WriteFile(b.defragmented(), []byte("half of a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	same()
	left, err := filepath.Glob(path + "*defragment*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if err := write(b, "after", nil); err != nil {
		t.Error(err)
	}
}

// TestDefragmentBesideCheckpoints gives the space back to the disk, though the checkpointer copies the log meanwhile.
func TestDefragmentBesideCheckpoints(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case b.checkpoints.wake <- struct{}{}:
			}
		}
	}()
	defer func() {
		close(done)
		<-ended
	}()
	for range 10 {
		fragment(t, b)
		if err := b.Defragment(t.Context()); err != nil {
			t.Fatal(err)
		}
		size, err := b.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size.Total {
			t.Fatalf("a file of %d bytes with %d in use, %v", info.Size(), size.Total, err)
		}
	}
}

// TestDefragmentWithoutTemporaryDirectory defragments in a process in which SQLite cannot create temporary files: the
// directory's name exceeds SQLite's limit.
func TestDefragmentWithoutTemporaryDirectory(t *testing.T) {
	const role = "defragments"
	if path, ok := env.IsChild(role); ok {
		b := openTest(t, Config{Path: path})
		if err := b.writer.exec("PRAGMA temp.cache_size = 1; CREATE TEMP TABLE t AS " +
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT randomblob(100000) " +
			"FROM n"); err == nil {
			t.Error("SQLite can create temporary files, so this test proves nothing")
		}
		fragment(t, b)
		if err := b.Defragment(t.Context()); err != nil {
			t.Error(err)
		}
		if err := write(b, "after", nil); err != nil {
			t.Error(err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 250), strings.Repeat("y", 250))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env.AsChild(role, filepath.Join(t.TempDir(), "db")), "SQLITE_TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Only a failed sync makes the committed state unknown.
func TestErrorsThatStopTheDatabase(t *testing.T) {
	for _, c := range []struct {
		code  sqlite3.ErrNoExtended
		stops bool
	}{
		{sqlite3.ErrIoErrFsync, true},
		{sqlite3.ErrIoErrDirFsync, true},
		{sqlite3.ErrIoErrGetTempPath, false},
		{sqlite3.ErrIoErrRead, false},
		{sqlite3.ErrIoErrWrite, false},
	} {
		b := openTest(t, Config{Temporary: true})
		err := b.syncError("checkpoint", sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: c.code})
		if errors.Is(err, backend.ErrUnknownOutcome) != c.stops {
			t.Errorf("%d: %v", c.code, err)
		}
		if err := write(b, "a", nil); (err != nil) != c.stops {
			t.Errorf("%d: the next write: %v", c.code, err)
		}
	}
}
