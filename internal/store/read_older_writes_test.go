package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// Reads at random older revisions return what the database has there, while others write, compact and purge, also after
// a restart.
func TestOlderReadsDuringWrites(t *testing.T) {
	const rounds, writers, writes, readers = 3, 2, 100, 3
	for _, cache := range []int64{1, 0} {
		t.Run(fmt.Sprint("cache ", cache), func(t *testing.T) {
			b := openSQLite(t)
			for round := range uint64(rounds) {
				s, err := Open(t.Context(), b, Config{CacheBytes: cache})
				if err != nil {
					t.Fatal(err)
				}
				var writing, reading sync.WaitGroup
				read, done := make(chan struct{}), make(chan struct{})
				for n := range uint64(writers) {
					r := rand.New(rand.NewPCG(round, n))
					writing.Go(func() {
						for range writes {
							<-read // otherwise writes are so fast that the log never reaches far back
							if err := writeAnything(t, s, r); err != nil {
								t.Error(err)
							}
						}
					})
				}
				for n := range uint64(readers) {
					r := rand.New(rand.NewPCG(round, writers+n))
					reading.Go(func() {
						for {
							if err := compareRead(t, s, b, r); err != nil {
								t.Error(err)
							}
							select {
							case read <- struct{}{}:
							case <-done:
								return
							}
						}
					})
				}
				writing.Wait()
				close(done)
				reading.Wait()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func anyKey(r *rand.Rand) []byte { return fmt.Appendf(nil, "k%03d", r.IntN(300)) }

// writeAnything writes something that clients of etcd could write.
func writeAnything(t *testing.T, s *Store, r *rand.Rand) error {
	txn, key := &Txn{}, anyKey(r)
	size := []int{0, 3, 50, 1000, 20_000}[min(r.IntN(5), r.IntN(5))]
	put := Op{Put: &PutRequest{Key: key, Value: bytes.Repeat([]byte{byte('a' + r.IntN(26))}, size)}}
	del := func(k, end []byte) Op { return Op{Delete: &DeleteRequest{Key: k, End: end}} }
	nested := func(op Op) Op { return Op{Txn: &Txn{Success: []Op{op}}} }
	switch n := r.IntN(1000); {
	case n == 0: // more rows than are applied while reads wait
		for i := range 4100 + r.IntN(1000) {
			txn.Success = append(txn.Success, Op{Put: &PutRequest{Key: fmt.Appendf(nil, "m%05d", i)}})
		}
	case n < 3:
		txn.Success = []Op{del([]byte{0}, []byte{0})}
	case n < 6:
		from := s.Compacted()
		_, err := s.Compact(t.Context(), from+r.Int64N((s.Revision()-from)/2+1), r.IntN(2) == 0)
		if errors.Is(err, ErrCompacted) {
			err = nil
		}
		return err
	case n < 100:
		txn.Success = []Op{nested(put), nested(del(key, nil))}
	case n < 200:
		txn.Success = []Op{nested(del(key, nil)), nested(put)}
	case n < 300:
		txn.Success = []Op{del(key, [][]byte{nil, append(slices.Clone(key[:3]), '9')}[r.IntN(2)])}
	default:
		txn.Success = []Op{put}
	}
	_, err := s.Txn(t.Context(), txn)
	return err
}

// compareRead reads at a random older revision, and compares the answer with the database's.
func compareRead(t *testing.T, s *Store, b backend.Backend, r *rand.Rand) error {
	rev := max(1, s.Compacted())
	rev += r.Int64N(s.Revision() - rev + 1)
	req := &RangeRequest{
		Key: [][]byte{{0}, []byte("k"), anyKey(r), anyKey(r)}[r.IntN(4)], Revision: rev,
		End:      [][]byte{nil, {0}, anyKey(r), anyKey(r), []byte("z")}[r.IntN(5)],
		KeysOnly: r.IntN(4) == 0, CountOnly: r.IntN(5) == 0, NoCount: r.IntN(5) == 0, Limit: max(0, r.Int64N(900)-600),
	}
	if r.IntN(3) == 0 {
		req.Target, req.Order = SortTarget(r.IntN(5)), SortOrder(r.IntN(3))
	}
	sp := index.NewSpan(req.Key, req.End)
	if sp.Empty {
		return nil
	}
	var res *RangeResult
	var rows []*Row
	var gone error
	if r.IntN(3) == 0 {
		res, gone = s.RangeStream(t.Context(), req, func(part []*Row, _ bool) error {
			rows = append(rows, part...)
			return nil
		})
	} else {
		if r.IntN(4) == 0 {
			req.MinModRev, req.MaxCreateRev = r.Int64N(rev+1), r.Int64N(rev+2)
		}
		if res, gone = s.Range(t.Context(), req); gone == nil {
			rows = res.Rows
		}
	}
	all, clock, err := b.Range(t.Context(), backend.RangeQuery{Span: sp.Backend(), Revision: rev, Limit: 100_000})
	if err != nil || clock.Check(rev) != nil || gone != nil {
		if err == nil && clock.Check(rev) == nil || gone != nil && !errors.Is(gone, ErrCompacted) {
			err = fmt.Errorf("%+v: %w", req, gone)
		}
		return err
	}
	items, more := make([]*index.Item, len(all)), false
	for i := range all {
		items[i] = index.NewItem(all[i])
	}
	count := int64(len(items))
	if req.CountOnly {
		items = nil
	} else if items, more, err = s.selected(t.Context(), items, clock.Epoch, req); err != nil {
		return err
	}
	if req.NoCount {
		count = res.Count // callers do not look
	}
	same := slices.EqualFunc(rows, items, func(row *Row, it *index.Item) bool {
		want := it.Row
		if req.KeysOnly {
			want.Value, want.Lease = nil, row.Lease
		}
		return rowText(row) == rowText(&want)
	})
	if !same || res.Count != count || res.More != more {
		return fmt.Errorf("%+v: %d rows, count %d, more %v; want %d, %d, %v",
			req, len(rows), res.Count, res.More, len(items), count, more)
	}
	return nil
}
