package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

// file writes the snapshot of x to a file, and opens it with bbolt, which finds no fault. It calls between once the
// snapshot is measured.
func file(t *testing.T, x *store.Export, between func()) *bbolt.DB {
	t.Helper()
	s, err := snapshot.New(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	between()
	f, err := os.Create(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Write(t.Context(), f)
	info, e := f.Stat()
	if err = errors.Join(err, e, f.Close()); err != nil {
		t.Fatal(err)
	}
	if info.Size() != s.Size {
		t.Errorf("%d bytes instead of %d", info.Size(), s.Size)
	}
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	snapshot.CheckBolt(t, db)
	return db
}
