package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func benchKey(i int) []byte {
	return fmt.Appendf(nil, "/registry/pods/namespace-%03d/object-%07d", i%100, i)
}

// filler writes, and keeps the record of the database's contents that the store would.
type filler struct {
	tb       testing.TB
	b        *Backend
	revision int64
	rows     []backend.Row // newest by key
	value    []byte
}

func newFiller(tb testing.TB, b *Backend, keys, value int) *filler {
	tb.Helper()
	c, err := b.Clock(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	f := &filler{tb: tb, b: b, revision: c.Revision, rows: make([]backend.Row, keys), value: make([]byte, value)}
	for i := range f.value {
		f.value[i] = byte(rand.Uint32())
	}
	return f
}

// put writes new versions of these keys, each at its own revision, in one commit.
func (f *filler) put(keys []int) {
	f.tb.Helper()
	ctx := context.Background()
	n := backend.Needs{Tail: &backend.TailQuery{After: f.revision, Limit: 1000}}
	for _, k := range keys {
		n.Keys = append(n.Keys, benchKey(k))
	}
	tx, err := f.b.Begin(ctx, n)
	if err != nil {
		f.tb.Fatal(err)
	}
	e := backend.Effects{Rows: make([]backend.Row, len(keys)), Batch: rand.Int64() | 1}
	for i, k := range keys {
		f.revision++
		r := &f.rows[k]
		if r.Key == nil {
			r.Key, r.CreateRevision = benchKey(k), f.revision
		}
		r.Version, r.PrevRevision, r.ModRevision, r.Value = r.Version+1, r.ModRevision, f.revision, f.value
		e.Rows[i] = *r
	}
	e.Revision = f.revision
	if err := tx.Commit(ctx, &e); err != nil {
		f.tb.Fatal(err)
	}
}

func (f *filler) all() {
	f.tb.Helper()
	for start := 0; start < len(f.rows); start += 500 {
		var keys []int
		for k := start; k < min(start+500, len(f.rows)); k++ {
			keys = append(keys, k)
		}
		f.put(keys)
	}
}

// BenchmarkCommit writes new versions of random keys out of 20,000 with 1 KiB values, synced: both round trips.
func BenchmarkCommit(b *testing.B) {
	for _, batch := range []int{1, 32, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			f := newFiller(b, openTest(b, Config{DSN: database(b)}), 20_000, 1024)
			f.all()
			keys := make([]int, batch)
			took := make([]time.Duration, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				for i := range keys {
					keys[i] = rand.IntN(len(f.rows))
				}
				slices.Sort(keys)
				keys = slices.Compact(keys)
				start := time.Now()
				f.put(keys)
				took[n] = time.Since(start)
				keys = keys[:batch]
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-us")
		})
	}
}

// BenchmarkRead reads from tables of several sizes.
func BenchmarkRead(b *testing.B) {
	for _, size := range []struct{ keys, versions int }{{20_000, 1}, {20_000, 5}, {2_000, 100}, {200_000, 1}} {
		be := openTest(b, Config{DSN: database(b)})
		f := newFiller(b, be, size.keys, 1024)
		for range size.versions {
			f.all()
		}
		if err := be.Defragment(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("keys=%d,versions=%d", size.keys, size.versions), func(b *testing.B) { benchReads(b, be, f) })
	}
}

func benchReads(b *testing.B, be *Backend, f *filler) {
	ctx := context.Background()
	for _, keysOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("page=500/keysOnly=%t", keysOnly), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				q := backend.RangeQuery{
					Span:     backend.Span{Start: benchKey(rand.IntN(len(f.rows))), End: []byte("/registry/q")},
					Revision: f.revision, Limit: 500, KeysOnly: keysOnly,
				}
				if _, _, err := be.Range(ctx, q); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("get/keysOnly=%t", keysOnly), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				q := backend.RangeQuery{
					Span:     backend.Span{Start: f.rows[rand.IntN(len(f.rows))].Key},
					Revision: f.revision, Limit: 1, KeysOnly: keysOnly,
				}
				if rows, _, err := be.Range(ctx, q); err != nil || len(rows) != 1 {
					b.Fatal(rows, err)
				}
			}
		})
	}
	b.Run("rows=500", func(b *testing.B) {
		for range b.N {
			var ids []backend.RowID
			for range 500 {
				ids = append(ids, backend.RowID{ModRevision: 2 + rand.Int64N(f.revision-1)})
			}
			if _, _, err := be.Rows(ctx, ids, 1<<30); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("begin=64keys", func(b *testing.B) {
		for range b.N {
			var n backend.Needs
			for range 64 {
				n.Keys = append(n.Keys, f.rows[rand.IntN(len(f.rows))].Key)
			}
			tx, err := be.Begin(ctx, n)
			if err != nil {
				b.Fatal(err)
			}
			tx.Rollback()
		}
	})
	b.Run("clock", func(b *testing.B) {
		for range b.N {
			if _, err := be.Clock(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("count", func(b *testing.B) {
		for range b.N {
			if n, _, err := be.Count(ctx,
				backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: f.revision}); err != nil ||
				n != int64(len(f.rows)) {
				b.Fatal(n, err)
			}
		}
	})
}
