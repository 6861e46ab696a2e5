package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// batchOn returns an evaluator over what s has committed.
func batchOn(t *testing.T, s *Store) *evaluator {
	t.Helper()
	eventually(t, "the index is complete", s.index.Complete)
	return s.seq.evaluator(t.Context(), &backend.Loaded{Clock: backend.Clock{Revision: s.Revision()}}, true)
}

// TestOverlay runs random transactions in one batch, some of which are undone. What each reads, counts and deletes is
// compared with a map.
func TestOverlay(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	committed := map[string]bool{}
	for i := range 40 {
		key := fmt.Sprintf("%02d", 2*i)
		put(t, s, key, "")
		committed[key] = true
	}
	r := rand.New(rand.NewPCG(env.Seed.Uint(t, 1), 2))
	e, live := batchOn(t, s), maps.Clone(committed)
	key := func() string { return fmt.Sprintf("%02d", r.IntN(90)) }
	within := func(from, to string) (keys []string) {
		for k := range live {
			if k >= from && k < to {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		return keys
	}
	for txn := range 300 {
		e.begin()
		began := maps.Clone(live)
		for range r.IntN(12) {
			from, to, limit := key(), key(), 1+r.IntN(20)
			want := within(from, to)
			switch r.IntN(4) {
			case 0:
				if _, err := e.put(&PutRequest{Key: []byte(from)}); err != nil {
					t.Fatal(err)
				}
				live[from] = true
			case 1:
				to = min(to, from+"9")
				want = within(from, to)
				res, err := e.delete(&DeleteRequest{Key: []byte(from), End: []byte(to)})
				if err != nil || res.Deleted != int64(len(want)) {
					t.Fatalf("deleted %+v in [%s, %s), %v; want %q", res, from, to, err, want)
				}
				for _, k := range want {
					delete(live, k)
				}
			case 2:
				if n, err := e.count([]byte(from), []byte(to)); err != nil || n != int64(len(want)) {
					t.Fatalf("%d keys in [%s, %s), %v; want %q", n, from, to, err, want)
				}
			case 3:
				items, more := e.first([]byte(from), []byte(to), limit)
				if more != (len(want) > limit) || more && len(items) <= limit || !more && len(items) != len(want) {
					t.Fatalf("%d of [%s, %s), %t; want up to %d of %q", len(items), from, to, more, limit, want)
				}
				for i, it := range items {
					if string(it.Key) != want[i] {
						t.Fatalf("%d. of [%s, %s) is %q; want %q", i, from, to, it.Key, want)
					}
				}
			}
		}
		for i, it := range e.rows[e.mark:] {
			if prev := e.prevs[e.mark+i]; it.PrevRevision != 0 && (prev != nil) != began[index.KeyString(it.Key)] {
				t.Fatalf("transaction %d: row %+v superseded %+v", txn, it, prev)
			}
		}
		if r.IntN(3) == 0 {
			e.abort()
			live = began
		}
		e.end()
	}
}

// TestTransactionEndsWithItsCaller has the caller leave during a long transaction.
func TestTransactionEndsWithItsCaller(t *testing.T) {
	e := batchOn(t, openStore(t, openSQLite(t), Config{}))
	e.begin()
	var leave context.CancelFunc
	e.client, leave = context.WithCancel(t.Context())
	leave()
	long := &Txn{Success: []Op{{Put: &PutRequest{Key: []byte("a")}}, {Put: &PutRequest{Key: []byte("b")}}}}
	if _, err := e.txn(long); !errors.Is(err, context.Canceled) || len(e.rows) != 1 {
		t.Errorf("%v after %d rows", err, len(e.rows))
	}
}
