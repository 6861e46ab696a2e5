package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend/sqlite"
)

var benchValue = bytes.Repeat([]byte("v"), 1024)

func benchKey(i int64) []byte {
	return fmt.Appendf(nil, "/registry/pods/namespace-%03d/pod-%08d", i%100, i)
}

// benchStore returns an engine over a durable file, or over a temporary one where only the engine counts.
func benchStore(b *testing.B, durable bool) *Store {
	b.Helper()
	cfg := sqlite.Config{Temporary: true}
	if durable {
		cfg = sqlite.Config{Path: b.TempDir() + "/bench.db"}
	}
	d, err := sqlite.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	s := openStore(b, d, Config{QuotaBytes: -1})
	for !complete(s) {
		if b.Context().Err() != nil {
			b.Fatal("the index is not loaded")
		}
	}
	return s
}

func complete(s *Store) bool {
	return s.index.Complete()
}

// clients runs f in 64 goroutines until b.N calls are made; n counts them from 0.
func clients(b *testing.B, f func(n int64)) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
				f(n)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

// create returns the transaction that kube-apiserver sends to create an object.
func create(key []byte) *Txn {
	return &Txn{
		Compare: []Compare{{Key: key, Target: CompareMod, Result: CompareEqual}},
		Success: []Op{{Put: &PutRequest{Key: key, Value: bytes.Clone(benchValue)}}},
	}
}

func update(key []byte, rev int64) *Txn {
	t := create(key)
	t.Compare[0].Number = rev
	t.Failure = []Op{{Range: &RangeRequest{Key: key}}}
	return t
}

func mustTxn(b *testing.B, s *Store, t *Txn) *TxnResult {
	res, err := s.Txn(context.Background(), t)
	if err != nil || !res.Succeeded {
		b.Errorf("%+v, %v", res, err)
	}
	return res
}

func BenchmarkCreate(b *testing.B) {
	s := benchStore(b, true)
	clients(b, func(n int64) { mustTxn(b, s, create(benchKey(n))) })
}

func BenchmarkUpdate(b *testing.B) {
	s := benchStore(b, true)
	var revs [64]int64
	free := make(chan int, len(revs))
	for i := range revs {
		revs[i] = mustTxn(b, s, create(benchKey(int64(i)))).Revision
		free <- i
	}
	clients(b, func(int64) {
		i := <-free
		revs[i] = mustTxn(b, s, update(benchKey(int64(i)), revs[i])).Revision
		free <- i
	})
}

// fillBench creates n keys with values of so many bytes.
func fillBench(b *testing.B, s *Store, n int64, value int) {
	b.Helper()
	const part = 1000
	for i := int64(0); i < n; i += part {
		t := &Txn{}
		for j := i; j < min(n, i+part); j++ {
			t.Success = append(t.Success, Op{Put: &PutRequest{Key: benchKey(j), Value: benchValue[:value]}})
		}
		if _, err := s.Txn(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
}

// filled returns an engine with n keys, all in memory.
func filled(b *testing.B, n int64) *Store {
	b.Helper()
	s := benchStore(b, false)
	fillBench(b, s, n, 16)
	return s
}

func BenchmarkGet(b *testing.B) {
	const keys = 20_000
	s := filled(b, keys)
	clients(b, func(n int64) {
		res, err := s.Range(context.Background(), &RangeRequest{Key: benchKey(n % keys)})
		if err != nil || len(res.Rows) != 1 {
			b.Error(res, err)
		}
	})
}

// BenchmarkGetCold gets objects that are not in memory, from a table that is larger than SQLite's own cache.
func BenchmarkGetCold(b *testing.B) {
	const keys = 200_000
	d, err := sqlite.Open(b.Context(), sqlite.Config{Temporary: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	s := openStore(b, d, Config{QuotaBytes: -1, CacheBytes: 1})
	fillBench(b, s, keys, len(benchValue))
	before := cpu()
	clients(b, func(n int64) {
		res, err := s.Range(context.Background(), &RangeRequest{Key: benchKey(n * 7919 % keys)})
		if err != nil || len(res.Rows) != 1 {
			b.Error(res, err)
		}
	})
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/get")
}

var prefix = struct{ key, end []byte }{[]byte("/registry/pods/"), []byte("/registry/pods0")}

func BenchmarkPageOf500(b *testing.B) {
	for _, keys := range []int64{20_000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			s := filled(b, keys)
			b.ReportAllocs()
			start := prefix.key
			for b.Loop() {
				res, err := s.Range(context.Background(),
					&RangeRequest{Key: start, End: prefix.end, Limit: 500, Revision: s.Revision()})
				if err != nil || len(res.Rows) == 0 {
					b.Fatal(res, err)
				}
				start = prefix.key
				if res.More {
					start = append(bytes.Clone(res.Rows[len(res.Rows)-1].Key), 0)
				}
			}
		})
	}
}

func BenchmarkCountOfMillion(b *testing.B) {
	s := filled(b, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		res, err := s.Range(context.Background(), &RangeRequest{Key: prefix.key, End: prefix.end, CountOnly: true})
		if err != nil || res.Count != 1_000_000 {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkPublish measures the delivery of one change to the watches of 100 streams.
func BenchmarkPublish(b *testing.B) {
	for _, interested := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("%d of 100", interested), func(b *testing.B) {
			s := benchStore(b, false)
			var got sync.WaitGroup
			var streams sync.WaitGroup
			for i := range 100 {
				st := s.NewWatchStream()
				req := WatchRequest{
					Key: fmt.Appendf(nil, "/other/%d/", i), End: fmt.Appendf(nil, "/other/%d0", i),
					PrevKV: true,
				}
				if i < interested {
					req.Key, req.End = prefix.key, prefix.end
				}
				st.Watch(req)
				next(b, st)
				defer st.Close()
				streams.Go(func() {
					for {
						r, err := st.Next(context.Background())
						if err != nil {
							return
						}
						got.Add(-len(r.Events))
					}
				})
			}
			b.ReportAllocs()
			got.Add(b.N * interested)
			b.ResetTimer()
			for n := range int64(b.N) {
				if _, err := s.Put(context.Background(),
					&PutRequest{Key: benchKey(n % 1000), Value: benchValue}); err != nil {
					b.Fatal(err)
				}
			}
			got.Wait()
		})
	}
}

// cpu returns the processor time of this process: all threads, in user and kernel mode.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
