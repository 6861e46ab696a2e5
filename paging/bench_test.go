package paging

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/store"
)

// largeVariable makes BenchmarkPage run over 1,000,000 keys, too, which takes about 700 MB of disk and as much memory.
const largeVariable = "SQLSTORE_BENCH_LARGE"

const (
	benchPage  = 500
	benchBatch = 10_000
	benchKey   = "/registry/pods/default/pod-%07d"
)

// BenchmarkPage reads pages of 500 at the beginning, in the middle and at the end of 20,000 and of 1,000,000 keys: a
// page's cost must depend on neither. No value is in memory. "first" is a page without a token: it counts the list,
// which is quick with the index, while the database reads all keys.
func BenchmarkPage(b *testing.B) {
	sizes := []int{20_000}
	if os.Getenv(largeVariable) != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		path := filepath.Join(b.TempDir(), "db")
		fillFile(b, path, n)
		for name, disabled := range map[string]bool{"index": false, "database": true} {
			b.Run(fmt.Sprintf("keys=%d/from=%s", n, name), func(b *testing.B) { benchmarkPages(b, path, n, disabled) })
		}
	}
}

// openFile opens the file without syncs, as losing it does not matter.
func openFile(b *testing.B, path string) *sqlite.Backend {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{
		Path: path, UnsafeNoFsync: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// fillFile writes n keys below the store, in large batches.
func fillFile(b *testing.B, path string, n int) {
	b.Helper()
	s := openFile(b, path)
	value := make([]byte, 256)
	for next := 0; next < n; next += benchBatch {
		tx, err := s.Begin(b.Context(), backend.Needs{})
		if err != nil {
			b.Fatal(err)
		}
		e := backend.Effects{Revision: tx.Loaded().Clock.Revision, Batch: 1}
		for i := next; i < min(n, next+benchBatch); i++ {
			e.Revision++
			e.Rows = append(e.Rows, backend.Row{
				Key: fmt.Appendf(nil, benchKey, i), Value: value, ModRevision: e.Revision, CreateRevision: e.Revision,
				Version: 1,
			})
		}
		if err := tx.Commit(b.Context(), &e); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func benchmarkPages(b *testing.B, path string, n int, disabled bool) {
	file := openFile(b, path)
	defer func() { _ = file.Close() }()
	s, err := store.Open(b.Context(), file, store.Config{CacheBytes: 1, DisableIndex: disabled})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for tick := time.NewTicker(10 * time.Millisecond); !disabled; <-tick.C {
		st, err := s.Status(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if st.Keys == int64(n) {
			break // the index is complete
		}
	}
	p := New(s, file)
	keys, err := p.keys.sealing(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	const prefix = "/registry/pods/"
	at := func(first int) string {
		start := fmt.Sprintf(benchKey, first)[len(prefix):]
		return seal(keys.newest, keys.byID[keys.newest], prefix, place{
			epoch: 1, revision: s.Revision(),
			rest: int64(n - first), start: start,
		})
	}
	for _, place := range []struct{ name, token string }{
		{"first", ""}, {"beginning", at(benchPage)}, {"middle", at(n / 2)}, {"end", at(n - 2*benchPage)},
	} {
		b.Run("at="+place.name, func(b *testing.B) {
			for b.Loop() {
				rows := 0
				page, err := p.List(context.Background(), []byte(prefix), ListOptions{
					Limit:    benchPage,
					Continue: place.token,
				}, func(chunk []*store.Row) error {
					rows += len(chunk)
					return nil
				})
				if err != nil || rows != benchPage || page.Continue == "" {
					b.Fatal(rows, page, err)
				}
			}
		})
	}
}
