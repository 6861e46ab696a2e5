package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// bbolt reads what a tree writes, whatever the numbers of its pages, finds no fault, and can delete all of it.
func TestTree(t *testing.T) {
	t.Parallel()
	const perLeaf = 3 // of entries with 1 KiB
	for _, leaves := range []int{
		0, 1, 2, fanout - 1, fanout, fanout + 1, fanout + 2, fanout + 3, 2 * fanout, 2*fanout + 1, 2*fanout + 2,
		fanout * fanout, fanout*fanout + 1, fanout*fanout + 2,
	} {
		t.Run(fmt.Sprint("leaves=", leaves), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(leaves), 0))
			var keys, values [][]byte
			for i := range leaves * perLeaf {
				keys = append(keys, fmt.Appendf(nil, "%0*d", revisionSize, i))
				values = append(values, bytes.Repeat([]byte{byte(i)}, 1024))
			}
			db, tr := boltFile(t, keys, values)
			if int(tr.fill.leaves) != leaves {
				t.Errorf("%d leaves", tr.fill.leaves)
			}
			if want := firstPage + tr.fill.pages + branches(tr.fill.leaves); tr.pages.next-1 != want {
				t.Errorf("the root of the buckets is page %d, want %d", tr.pages.next-1, want)
			}
			deleteAll(t, db, keys, r)
		})
	}
}

// Entries may be larger than a page, and so may the keys of branch pages.
func TestTreeOfLargeEntries(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var keys, values [][]byte
		for i := range r.IntN(1000) {
			keys = append(keys, fmt.Appendf(nil, "%08d%s", i, bytes.Repeat([]byte{'k'}, r.IntN(1+r.IntN(2000)))))
			values = append(values, bytes.Repeat([]byte{byte(i)}, r.IntN(1+r.IntN(20000))))
		}
		db, _ := boltFile(t, keys, values)
		deleteAll(t, db, keys, r)
	}
}

// What bbolt would not accept is refused.
func TestTreeRefusesKeys(t *testing.T) {
	for size, ok := range map[int]bool{0: false, 1: true, bbolt.MaxKeySize: true, bbolt.MaxKeySize + 1: false} {
		tr := &tree{pages: &pages{w: io.Discard}}
		if err := tr.add(make([]byte, size), nil, 0); (err == nil) != ok {
			t.Errorf("key of %d bytes: %v", size, err)
		}
	}
}

var testBucket = []byte("test")

// boltFile writes a file with one bucket, opens it, and compares its content.
func boltFile(t *testing.T, keys, values [][]byte) (*bbolt.DB, *tree) {
	t.Helper()
	var out bytes.Buffer
	write := func(p *pages) (*tree, int64) {
		tr, names := &tree{pages: p}, &tree{pages: p}
		for i := range keys {
			if err := tr.add(keys[i], values[i], 0); err != nil {
				t.Fatal(err)
			}
		}
		root, err := tr.end()
		if err == nil {
			err = names.add(testBucket, bucketValue(root), bucketEntry)
		}
		if err == nil {
			root, err = names.end()
		}
		if err != nil {
			t.Fatal(err)
		}
		return tr, root
	}
	tr, root := write(&pages{w: &out, next: firstPage})
	buckets := bytes.Clone(out.Bytes())
	out.Reset()
	if err := (&pages{w: &out}).begin(root, root+1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, append(out.Bytes(), buckets...), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	CheckBolt(t, db)
	if err := db.View(func(tx *bbolt.Tx) error {
		i := 0
		return tx.Bucket(testBucket).ForEach(func(k, v []byte) error {
			if !bytes.Equal(k, keys[i]) || !bytes.Equal(v, values[i]) || !bytes.Equal(tx.Bucket(testBucket).Get(k), v) {
				t.Fatalf("entry %d has key %.40q", i, k)
			}
			i++
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return db, tr
}

// deleteAll deletes all keys in a random order, in some transactions.
func deleteAll(t *testing.T, db *bbolt.DB, keys [][]byte, r *rand.Rand) {
	t.Helper()
	order := r.Perm(len(keys))
	for len(order) > 0 {
		n := min(len(order), 1+r.IntN(1+len(keys)/4))
		if err := db.Update(func(tx *bbolt.Tx) error {
			var all []error
			for _, i := range order[:n] {
				all = append(all, tx.Bucket(testBucket).Delete(keys[i]))
			}
			return errors.Join(all...)
		}); err != nil {
			t.Fatal(err)
		}
		order = order[n:]
	}
	CheckBolt(t, db)
}

// CheckBolt fails the test if bbolt finds a fault in a file.
func CheckBolt(t *testing.T, db *bbolt.DB) {
	t.Helper()
	if err := db.View(func(tx *bbolt.Tx) error {
		var all []error
		for e := range tx.Check() {
			all = append(all, e)
		}
		return errors.Join(all...)
	}); err != nil {
		t.Fatal(err)
	}
}
