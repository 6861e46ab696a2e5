package store

import (
	"bytes"
	"fmt"
	"testing"
)

// mixedSizes returns value sizes: many small ones, so that chunks hold many rows, with large ones after and among them.
func mixedSizes() (sizes []int) {
	for range 400 {
		sizes = append(sizes, 1)
	}
	for i := range 4 {
		sizes = append(sizes, chunkBytes+i, 400<<10, 0, 10)
	}
	for range 15 {
		sizes = append(sizes, 100<<10)
	}
	return sizes
}

func mixedStore(t *testing.T, sizes []int, cfg Config) *Store {
	t.Helper()
	s := openStore(t, openSQLite(t), cfg)
	txn := &Txn{}
	for i, n := range sizes {
		txn.Success = append(txn.Success,
			Op{Put: &PutRequest{Key: fmt.Appendf(nil, "k%04d", i), Value: bytes.Repeat([]byte{'v'}, n)}})
	}
	if _, err := s.Txn(within(t), txn); err != nil {
		t.Fatal(err)
	}
	return s
}

// eachSource runs f with values in memory, with some or all values in the database, and without an index.
func eachSource(t *testing.T, f func(t *testing.T, cfg Config)) {
	t.Helper()
	for name, cfg := range map[string]Config{
		"memory": {CacheBytes: 1 << 30}, "some of both": {CacheBytes: 4 << 20}, "values read": {CacheBytes: 1},
		"no index": {DisableIndex: true},
	} {
		t.Run(name, func(t *testing.T) { f(t, cfg) })
	}
}

// A stream is complete and in order. A chunk, even the first, reaches the byte bound only with its last value.
func TestStreamOfMixedSizes(t *testing.T) {
	mixed := mixedSizes()
	large := mixed[400:]
	eachSource(t, func(t *testing.T, cfg Config) {
		for name, sizes := range map[string][]int{"small first": mixed, "large first": large} {
			for _, keysOnly := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/keys only %t", name, keysOnly), func(t *testing.T) {
					s, n := mixedStore(t, sizes, cfg), 0
					res, err := s.RangeStream(within(t),
						&RangeRequest{Key: []byte("k"), End: []byte("l"), KeysOnly: keysOnly},
						func(rows []*Row, _ bool) error {
							if n == 0 {
								put(t, s, "k0000", "later")
								put(t, s, fmt.Sprintf("k%04d", len(sizes)-1), "later")
							}
							if before := sizeOf(rows[:len(rows)-1]); before >= chunkBytes {
								t.Errorf("a chunk of %d rows has %d bytes before its last row", len(rows), before)
							}
							for _, r := range rows {
								want := sizes[n]
								if keysOnly {
									want = 0
								}
								if string(r.Key) != fmt.Sprintf("k%04d", n) || len(r.Value) != want ||
									r.ModRevision != 2 {
									t.Fatalf("row %d is %s with %d bytes, want %d", n, r.Key, len(r.Value), want)
								}
								n++
							}
							return nil
						})
					if err != nil || n != len(sizes) || res.Count != int64(n) || res.More {
						t.Errorf("%d rows of %d, count %d, more %t, %v", n, len(sizes), res.Count, res.More, err)
					}
				})
			}
		}
	})
}

// A response reports correctly whether more rows follow its limit, wherever the byte bound ends the last chunk.
func TestStreamOfLargeRowsToItsLimit(t *testing.T) {
	sizes := []int{chunkBytes, chunkBytes, 10, chunkBytes, 600 << 10, 600 << 10, 5, chunkBytes}
	eachSource(t, func(t *testing.T, cfg Config) {
		s := mixedStore(t, sizes, cfg)
		for limit := range len(sizes) + 2 {
			n := 0
			res, err := s.RangeStream(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Limit: int64(limit)},
				func(rows []*Row, _ bool) error {
					n += len(rows)
					return nil
				})
			want := min(limit, len(sizes))
			if limit == 0 {
				want = len(sizes)
			}
			if err != nil || n != want || res.More != (want < len(sizes)) || res.Count != int64(len(sizes)) {
				t.Errorf("limit %d: %d rows, count %d, more %t, %v", limit, n, res.Count, res.More, err)
			}
		}
	})
}

// A list in a single response is complete, however much of it one statement reads.
func TestListOfMixedSizes(t *testing.T) {
	sizes := mixedSizes()
	for range 20 {
		sizes = append(sizes, chunkBytes)
	}
	eachSource(t, func(t *testing.T, cfg Config) {
		s := mixedStore(t, sizes, cfg)
		for _, target := range []SortTarget{SortKey, SortValue} {
			res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Target: target})
			if err != nil || len(res.Rows) != len(sizes) || res.More {
				t.Fatalf("%d rows, more %t, %v", len(res.Rows), res.More, err)
			}
			for i, r := range res.Rows {
				if target == SortKey && (string(r.Key) != fmt.Sprintf("k%04d", i) || len(r.Value) != sizes[i]) {
					t.Fatalf("row %d is %s with %d bytes, want %d", i, r.Key, len(r.Value), sizes[i])
				}
			}
		}
	})
}
