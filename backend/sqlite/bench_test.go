package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func openTest(tb testing.TB, cfg Config) *Backend {
	tb.Helper()
	b, err := Open(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	b.opening.Wait() // SQLite removes the log if it opens a file that a test has emptied
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// cpu returns this process's CPU time, user and system, of all threads.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU starts to measure; the returned function reports microseconds of CPU for each of n operations.
func reportCPU(b *testing.B) func(n int, unit string) {
	before := cpu()
	b.ResetTimer()
	return func(n int, unit string) {
		b.StopTimer()
		b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-us/"+unit)
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit+"s/s")
	}
}

func benchKey(i int) []byte {
	return fmt.Appendf(nil, "/registry/pods/namespace-%03d/object-%07d", i%100, i)
}

func incompressible(n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(rand.Uint32())
	}
	return v
}

// fill writes keys 0 to n-1 and keeps the record of the database's contents that the store would.
type filler struct {
	tb       testing.TB
	b        *Backend
	revision int64
	rows     []backend.Row // newest by key
	value    []byte
}

func newFiller(tb testing.TB, b *Backend, keys int) *filler {
	c, err := b.Clock(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return &filler{tb: tb, b: b, revision: c.Revision, rows: make([]backend.Row, keys), value: incompressible(1024)}
}

// put writes new versions of these keys, each at its own revision, in one commit.
func (f *filler) put(keys []int) {
	ctx := context.Background()
	tx, err := f.b.Begin(ctx, backend.Needs{})
	if err != nil {
		f.tb.Fatal(err)
	}
	e := backend.Effects{Rows: make([]backend.Row, len(keys))}
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
	for start := 0; start < len(f.rows); start += 500 {
		var keys []int
		for k := start; k < min(start+500, len(f.rows)); k++ {
			keys = append(keys, k)
		}
		f.put(keys)
	}
}

// BenchmarkCommit writes new versions of random keys out of 20,000 with 1 KiB values, synced.
func BenchmarkCommit(b *testing.B) {
	for _, batch := range []int{8, 32, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			f := newFiller(b, openTest(b, Config{Path: b.TempDir() + "/db"}), 20_000)
			f.all()
			keys := make([]int, batch)
			took := make([]time.Duration, b.N)
			done := reportCPU(b)
			for n := range b.N {
				for i := range keys {
					keys[i] = rand.IntN(len(f.rows))
				}
				start := time.Now()
				f.put(keys)
				took[n] = time.Since(start)
			}
			done(b.N*batch, "row")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[b.N-1].Microseconds()), "max-us")
		})
	}
}

// BenchmarkCreate writes new keys in a random order, as the creation of objects in many namespaces does.
func BenchmarkCreate(b *testing.B) {
	const batch = 64
	f := newFiller(b, openTest(b, Config{Path: b.TempDir() + "/db"}), b.N*batch)
	order := rand.Perm(b.N * batch)
	done := reportCPU(b)
	for i := range b.N {
		f.put(order[i*batch : (i+1)*batch])
	}
	done(b.N*batch, "row")
}

// BenchmarkRead reads from 20,000 objects, each with two versions, without concurrent writes.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	be := openTest(b, Config{Temporary: true})
	f := newFiller(b, be, 20_000)
	f.all()
	f.all()
	all := backend.Span{Start: []byte("/registry/pods/"), End: []byte("/registry/pods0")}
	page := func(b *testing.B, keysOnly bool) []backend.Row {
		start := benchKey(rand.IntN(len(f.rows)))
		rows, _, err := be.Range(ctx,
			backend.RangeQuery{
				Span: backend.Span{Start: start, End: []byte{}}, Revision: f.revision, Limit: 500,
				KeysOnly: keysOnly,
			})
		if err != nil {
			b.Fatal(err)
		}
		return rows
	}
	for _, keysOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("page=500/keysOnly=%t", keysOnly), func(b *testing.B) {
			done := reportCPU(b)
			for range b.N {
				page(b, keysOnly)
			}
			done(b.N, "page")
		})
	}
	b.Run("rows=500", func(b *testing.B) {
		var ids []backend.RowID
		for _, r := range page(b, true) {
			ids = append(ids, r.ID())
		}
		done := reportCPU(b)
		for range b.N {
			if _, _, err := be.Rows(ctx, ids, 1<<30); err != nil {
				b.Fatal(err)
			}
		}
		done(b.N, "page")
	})
	for _, keysOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("get/keysOnly=%t", keysOnly), func(b *testing.B) {
			done := reportCPU(b)
			for range b.N {
				key := f.rows[rand.IntN(len(f.rows))].Key
				rows, _, err := be.Range(ctx,
					backend.RangeQuery{
						Span: backend.Span{Start: key}, Revision: f.revision, Limit: 1,
						KeysOnly: keysOnly,
					})
				if err != nil || len(rows) != 1 {
					b.Fatal(rows, err)
				}
			}
			done(b.N, "get")
		})
	}
	b.Run("begin=64keys", func(b *testing.B) {
		var n backend.Needs
		for range 64 {
			n.Keys = append(n.Keys, f.rows[rand.IntN(len(f.rows))].Key)
		}
		done := reportCPU(b)
		for range b.N {
			tx, err := be.Begin(ctx, n)
			if err != nil {
				b.Fatal(err)
			}
			tx.Rollback()
		}
		done(b.N*64, "key")
	})
	b.Run("history=500", func(b *testing.B) {
		done := reportCPU(b)
		for range b.N {
			h, err := be.History(ctx,
				backend.HistoryQuery{After: f.revision - 1000, Span: all, Limit: 500, WithPrev: true})
			if err != nil || len(h.Changes) != 500 {
				b.Fatal(err)
			}
		}
		done(b.N, "page")
	})
	b.Run("count=20000", func(b *testing.B) {
		done := reportCPU(b)
		for range b.N {
			if n, _, err := be.Count(ctx, backend.RangeQuery{Span: all, Revision: f.revision}); err != nil ||
				n != 20_000 {
				b.Fatal(n, err)
			}
		}
		done(b.N, "count")
	})
}

// BenchmarkCountMillion counts 1,000,000 keys.
func BenchmarkCountMillion(b *testing.B) {
	be := openTest(b, Config{Temporary: true})
	f := newFiller(b, be, 1_000_000)
	f.value = f.value[:64]
	f.all()
	done := reportCPU(b)
	for range b.N {
		if n, _, err := be.Count(context.Background(),
			backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: f.revision}); err != nil || n != 1_000_000 {
			b.Fatal(n, err)
		}
	}
	done(b.N, "count")
}

// BenchmarkRow reads single rows from all over a table that is larger than SQLite's own cache.
func BenchmarkRow(b *testing.B) {
	const rows = 200_000
	be := openTest(b, Config{Temporary: true})
	f := newFiller(b, be, rows)
	f.all()
	done := reportCPU(b)
	for range b.N {
		id := backend.RowID{ModRevision: f.revision - rand.Int64N(rows)}
		if got, _, err := be.Rows(context.Background(), []backend.RowID{id}, 0); err != nil ||
			len(got[0].Value) != len(f.value) {
			b.Fatal(got, err)
		}
	}
	done(b.N, "row")
}
