package snapshot_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

// TestHashKV compares hashes of random histories, which are computed in parts and without values, with sums of all rows
// one after the other.
func TestHashKV(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s, err := store.Open(t.Context(), b, store.Config{DisableIndex: seed%2 == 0})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 1 + r.IntN(600) {
				change(t, s, r)
			}
			rows := stored(t, s)
			compacted := 1 + r.Int64N(s.Revision())
			if _, err := s.Compact(auth.With(t.Context(), auth.Server), compacted, seed%3 > 0); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				at := compacted + r.Int64N(s.Revision()-compacted+1)
				if got, want := hashed(t, s, at), sum(rows, compacted, at); got != want {
					t.Errorf("revision %d of %d, compacted at %d: %08x, want %08x", at, s.Revision(), compacted, got,
						want)
				}
			}
			got, want := fileHashes(t, s, func() { // what is written and compacted now does not change the snapshot
				for range 10 {
					change(t, s, r)
				}
				_, err := s.Compact(auth.With(t.Context(), auth.Server), s.Revision(), false)
				if err == nil {
					_, err = s.PurgeStep(t.Context(), 10_000)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
			if got != want {
				t.Errorf("the file's hash is %08x, want %08x", got, want)
			}
		})
	}
}

// fileHashes returns the hash of the store's file, and what etcd computes for the file, which is written after between.
func fileHashes(t *testing.T, s *store.Store, between func()) (got, want uint32) {
	t.Helper()
	x, err := s.Export(auth.With(t.Context(), auth.Server))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	got, err = snapshot.Hash(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	db := file(t, x, between)
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			h.Write(name)
			return b.ForEach(func(k, v []byte) error {
				switch string(k) {
				case "consistent_index", "term", "storageVersion":
				default:
					h.Write(k)
					h.Write(v)
				}
				return nil
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	return got, h.Sum32()
}

// change writes a random transaction. A few of them delete all keys.
func change(t *testing.T, s *store.Store, r *rand.Rand) {
	t.Helper()
	tx := &store.Txn{}
	if r.IntN(100) == 0 {
		tx.Success = []store.Op{{Delete: &store.DeleteRequest{Key: []byte{0}, End: []byte{0}}}}
	} else {
		for _, n := range r.Perm(40)[:1+r.IntN(5)] {
			key := fmt.Appendf(nil, "%0*d", 1+n, n)
			value := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(3)*r.IntN(5000))
			op := store.Op{Put: &store.PutRequest{Key: key, Value: value}}
			if r.IntN(4) == 0 {
				op = store.Op{Delete: &store.DeleteRequest{Key: key}}
			}
			tx.Success = append(tx.Success, op)
		}
	}
	if _, err := s.Txn(auth.With(t.Context(), auth.Server), tx); err != nil {
		t.Fatal(err)
	}
}

// stored returns all rows.
func stored(t *testing.T, s *store.Store) (rows []backend.Row) {
	t.Helper()
	x, err := s.Export(auth.With(t.Context(), auth.Server))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Rows(t.Context(), func(r backend.Row) error {
		r.Key = append([]byte(nil), r.Key...)
		r.Value = append([]byte(nil), r.Value...)
		rows = append(rows, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

func hashed(t *testing.T, s *store.Store, revision int64) uint32 {
	t.Helper()
	x, err := s.Export(auth.With(t.Context(), auth.Server))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	h, err := snapshot.HashKV(t.Context(), x, revision)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// sum computes what HashKV is defined as: see [store.Hashed].
func sum(rows []backend.Row, compacted, revision int64) uint32 {
	newest := newestAt(rows, revision)
	if len(newest) == 0 {
		newest = newestAt(rows, compacted)
	}
	h := snapshot.NewSum()
	for i := range rows {
		r := &rows[i]
		if r.ModRevision <= revision && (r.ModRevision > compacted || newest[string(r.Key)] == r.ID()) {
			h.Add(r)
		}
	}
	return h.Hash()
}

// newestAt returns the rows of the keys that exist at a revision.
func newestAt(rows []backend.Row, revision int64) map[string]backend.RowID {
	newest := map[string]backend.RowID{}
	for i := range rows {
		switch r := &rows[i]; {
		case r.ModRevision > revision:
		case r.Deleted:
			delete(newest, string(r.Key))
		default:
			newest[string(r.Key)] = r.ID()
		}
	}
	return newest
}
