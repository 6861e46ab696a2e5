package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// gated has every commit tell its keys and wait until it may go on.
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

// Transactions that look at many keys go a few at a time, behind what looks at few, and neither waits for more than one
// batch of the others.
func TestLongOperationsTakeTurns(t *testing.T) {
	const objects, reads = 101, longBatch/101 + 1
	f, batches, next := gated(t)
	s := openStore(t, f, Config{})
	eventually(t, "the index", s.index.whole)
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
