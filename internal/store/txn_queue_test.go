package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// gated makes every commit report its keys and block until it may continue.
func gated(t *testing.T) (f *faults, batches chan []string, next chan struct{}) {
	f = &faults{Backend: openSQLite(t)}
	batches, next = make(chan []string), make(chan struct{})
	f.commit = func(e *backend.Effects, through func() error) error {
		var keys []string
		for i := range e.Rows {
			keys = append(keys, string(e.Rows[i].Key))
		}
		select {
		case batches <- keys:
		case <-t.Context().Done():
		}
		select {
		case <-next:
		case <-t.Context().Done():
		}
		return through()
	}
	return f, batches, next
}

// Transactions that scan many keys run a few at a time, after those that scan few. Neither waits for more than
// one batch of the others.
func TestLongOperationsAlternate(t *testing.T) {
	const objects, reads = 101, longBatch/101 + 1
	f, batches, next := gated(t)
	s := openStore(t, f, Config{})
	eventually(t, "the index is complete", s.index.Complete)
	var wg sync.WaitGroup
	begin := func(txn *Txn) {
		wg.Go(func() {
			if _, err := s.Txn(within(t), txn); err != nil {
				t.Error(err)
			}
		})
	}
	queued := 0
	send := func(txn *Txn) {
		begin(txn)
		queued++
		waiting(t, s, queued)
	}
	want := func(keys string) {
		t.Helper()
		var got []string
		select {
		case got = <-batches:
		case <-within(t).Done():
		}
		if !slices.Equal(got, strings.Fields(keys)) {
			t.Fatalf("a batch has %v, want %s", got, keys)
		}
		queued = s.seq.queue.waiting()
	}
	short := func(key string) { send(&Txn{Success: []Op{{Put: &PutRequest{Key: []byte(key)}}}}) }
	long := func(key string) {
		txn := &Txn{Success: []Op{{Put: &PutRequest{Key: []byte(key)}}}}
		for range reads {
			txn.Success = append(txn.Success, Op{Range: &RangeRequest{Key: []byte("object"), End: []byte("objecu")}})
		}
		send(txn)
	}
	fill := &Txn{}
	for i := range objects {
		fill.Success = append(fill.Success, Op{Put: &PutRequest{Key: fmt.Append(nil, "object", i)}})
	}
	begin(fill)
	if n := len(<-batches); n != objects {
		t.Fatalf("the first batch has %d rows", n)
	}
	next <- struct{}{}
	wg.Wait()
	begin(&Txn{Success: []Op{{Put: &PutRequest{Key: []byte("first")}}}})
	want("first")
	long("long1")
	long("long2")
	long("long3")
	short("a")
	next <- struct{}{}
	want("a long1")
	short("b")
	next <- struct{}{}
	want("b")
	short("c")
	next <- struct{}{}
	want("c long2")
	next <- struct{}{}
	want("long3")
	next <- struct{}{}
	wg.Wait()
}

// Operations that scan many keys leave capacity in the queue for the others.
func TestLongOperationsLeaveCapacity(t *testing.T) {
	long := func(bytes int64) *call { return &call{ctx: t.Context(), keys: longRead + 1, bytes: bytes} }
	for _, test := range []struct{ bytes, fit int64 }{{1, 5}, {20, 2}, {500, 1}} {
		q := newQueue(10, 100)
		for range test.fit {
			if err := q.enqueue(long(test.bytes)); err != nil {
				t.Errorf("a request of %d bytes: %v", test.bytes, err)
			}
		}
		if err := q.enqueue(long(test.bytes)); !errors.Is(err, ErrTooManyRequests) {
			t.Errorf("one request of %d bytes too many: %v", test.bytes, err)
		}
		if test.bytes > 100 {
			continue
		}
		if err := q.enqueue(&call{ctx: t.Context(), bytes: 50}); err != nil {
			t.Errorf("a short request behind long ones of %d bytes: %v", test.bytes, err)
		}
	}
}

// The revocation of an expired lease does not wait for all client operations on many keys.
func TestEndedLeasesPassLongOperations(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	eventually(t, "the index is complete", s.index.Complete)
	keys := make([]string, longRead+1)
	for i := range keys {
		keys[i] = fmt.Sprint("leased", i)
	}
	grant(t, s, 7, 60, keys...)
	q := newQueue(10, 1000)
	for range 3 {
		if err := q.enqueue(&call{ctx: t.Context(), keys: longBatch}); err != nil {
			t.Fatal(err)
		}
	}
	for _, expired := range []bool{false, true} {
		c := s.newCall(t.Context(), &revokeOperation{id: 7, expired: expired})
		if err := q.enqueue(c); err != nil {
			t.Fatal(err)
		}
		if batch := q.dequeue(math.MaxInt64); slices.Contains(batch, c) != expired {
			t.Errorf("the revocation is in a batch of %d calls: %v, expired %v", len(batch), !expired, expired)
		}
	}
}

// Facts that only the database knows make an operation long, even if no key is left or few are returned.
func TestRangesThatScanManyKeys(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		indexed := !cfg.DisableIndex
		if indexed {
			eventually(t, "the index is complete", s.index.Complete)
		}
		for i := range longRead + 1 {
			put(t, s, fmt.Sprint("object", i), "")
		}
		for _, test := range []struct {
			r    RangeRequest
			long bool
		}{
			{RangeRequest{}, true},
			{RangeRequest{Limit: 1}, !indexed},
			{RangeRequest{Limit: 1, Order: SortDescend}, true},
			{RangeRequest{CountOnly: true}, !indexed},
			{RangeRequest{Revision: 2}, true},
			{RangeRequest{Revision: 2, Limit: 1}, true},
			{RangeRequest{Revision: 2, CountOnly: true}, true},
		} {
			for _, key := range []string{"object", "empty"} {
				r := test.r
				r.Key, r.End = []byte(key), append([]byte(key), 0xff)
				long := test.long && (key == "object" || r.Revision > 0 || !indexed)
				c := s.newCall(t.Context(), &txnOperation{txn: &Txn{Success: []Op{{Range: &r}}}})
				if (c.keys > longRead) != long {
					t.Errorf("%+v looks at %d keys", r, c.keys)
				}
				r.End = nil
				if c = s.newCall(t.Context(), &txnOperation{txn: &Txn{Success: []Op{{Range: &r}}}}); c.keys != 0 {
					t.Errorf("%+v looks at %d keys", r, c.keys)
				}
			}
		}
	})
}

// The size of a queued transaction counts everything that it holds.
func TestSizeOfTransactions(t *testing.T) {
	big := make([]byte, 1<<20)
	for name, txn := range map[string]*Txn{
		"compare": {Compare: []Compare{{Key: big}}}, "compare's end": {Compare: []Compare{{End: big}}},
		"range":       {Success: []Op{{Range: &RangeRequest{Key: big}}}},
		"range's end": {Failure: []Op{{Range: &RangeRequest{End: big}}}},
		"put":         {Success: []Op{{Put: &PutRequest{Value: big}}}},
		"delete":      {Success: []Op{{Delete: &DeleteRequest{Key: big}}}},
		"nested":      {Success: []Op{{Txn: &Txn{Failure: []Op{{Delete: &DeleteRequest{End: big}}}}}}},
	} {
		if n := txn.size(); n < 1<<20 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}
