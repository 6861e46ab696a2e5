package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// gate blocks Begin until it is open.
type gate struct {
	backend.Backend
	shut    bool
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if g.shut {
		close(g.arrived)
		<-g.open
	}
	return g.Backend.Begin(ctx, n)
}

// Read-only transactions and writes do not wait for each other.
func TestReadOnlyTransactionsPassWriters(t *testing.T) {
	g := &gate{Backend: openSQLite(t), arrived: make(chan struct{}), open: make(chan struct{})}
	s := openStore(t, g, Config{})
	put(t, s, "a", "1")
	put(t, s, "b", "2")
	put(t, s, "a", "3")
	for !complete(s) {
		runtime.Gosched()
	}
	g.shut = true
	written := make(chan error, 1)
	go func() {
		_, err := s.Put(within(t), &PutRequest{Key: []byte("a"), Value: []byte("4")})
		written <- err
	}()
	<-g.arrived
	all := func(r RangeRequest) Op {
		r.Key, r.End = []byte("a"), []byte("z")
		return Op{Range: &r}
	}
	res, err := s.Txn(within(t), &Txn{
		Compare: []Compare{{Key: []byte("a"), Target: CompareValue, Value: []byte("3")}},
		Success: []Op{
			all(RangeRequest{}), all(RangeRequest{Limit: 1}), all(RangeRequest{CountOnly: true}),
			all(RangeRequest{Limit: 1, Target: SortMod, Order: SortDescend}), all(RangeRequest{Revision: 2}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(res.Succeeded, res.Revision)
	for _, r := range res.Results {
		got += fmt.Sprintf(" %d%v", r.Range.Count, r.Range.More)
		for _, row := range r.Range.Rows {
			got += fmt.Sprintf(" %s=%s", row.Key, row.Value)
		}
	}
	if want := "true 4 2false a=3 b=2 2true a=3 2false 2true a=3 1false a=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = s.Txn(within(t), &Txn{Success: []Op{all(RangeRequest{Revision: 5})}})
	if !errors.Is(err, ErrFutureRevision) {
		t.Errorf("read of a future revision: %v", err)
	}
	close(g.open)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// The ranges of one transaction share a bound on what they scan. Pages and counts skip what they do not return. Rows
// that must be loaded because there is no index count in full.
func TestRowsOfRangesAreBounded(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 10
		s := openStore(t, openSQLite(t), cfg)
		for !cfg.DisableIndex && !complete(s) {
			runtime.Gosched()
		}
		for i := range 6 {
			put(t, s, fmt.Sprintf("k%d", i), "")
		}
		list := func(r RangeRequest) Op {
			r.Key, r.End = []byte("k"), []byte("l")
			return Op{Range: &r}
		}
		write := Op{Put: &PutRequest{Key: []byte("x")}}
		page, count := list(RangeRequest{Limit: 2}), list(RangeRequest{CountOnly: true})
		byVersion := list(RangeRequest{Limit: 1, Target: SortVersion})
		none := list(RangeRequest{Revision: 7, MinModRev: 100})
		before := list(RangeRequest{Revision: 7, CountOnly: true})
		for name, c := range map[string]struct {
			ops    []Op
			refuse bool
		}{
			"one list":  {ops: []Op{list(RangeRequest{}), count, count}},
			"two lists": {ops: []Op{list(RangeRequest{}), list(RangeRequest{})}, refuse: true},
			"two lists of the past": {
				ops:    []Op{list(RangeRequest{Revision: 7}), list(RangeRequest{Revision: 6})},
				refuse: true,
			},
			"empty lists of the past": {ops: []Op{none, none}, refuse: cfg.DisableIndex},
			"the past in a write":     {ops: []Op{write, none, none}, refuse: true},
			"pages":                   {ops: []Op{page, page, page, page, page}, refuse: cfg.DisableIndex},
			"too many pages":          {ops: []Op{page, page, page, page, page, page}, refuse: true},
			"sorted lists":            {ops: []Op{byVersion, byVersion}, refuse: cfg.DisableIndex},
			"two lists in a write":    {ops: []Op{write, list(RangeRequest{}), list(RangeRequest{})}, refuse: true},
			"counts in a write":       {ops: []Op{write, count, count, count}},
			"counts of the past in a write": {
				ops: []Op{write, before, before, before}, refuse: cfg.DisableIndex,
			},
			"sorted lists, a write": {ops: []Op{write, byVersion, byVersion}, refuse: true},
			"a list beside a branch": {
				ops:    []Op{write, {Txn: &Txn{Success: []Op{list(RangeRequest{})}}}, page},
				refuse: cfg.DisableIndex,
			},
		} {
			_, err := s.Txn(within(t), &Txn{Success: c.ops})
			if c.refuse != errors.Is(err, ErrTxnTooLarge) || !c.refuse && err != nil {
				t.Errorf("%s returns %v, want refusal: %v", name, err, c.refuse)
			}
		}
	})
}

// While any member has the CORRUPT alarm, writes fail and reads succeed.
func TestCorruptAlarm(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	grant(t, s, 1, 100, "a")
	alarm := Alarm{Member: 55, Kind: AlarmCorrupt}
	if err := s.RaiseAlarm(within(t), alarm); err != nil {
		t.Fatal(err)
	}
	_, put := s.Put(within(t), &PutRequest{Key: []byte("a")})
	_, del := s.Delete(within(t), &DeleteRequest{Key: []byte("none")})
	_, inside := s.Txn(within(t), &Txn{Success: []Op{{Txn: &Txn{}}}})
	_, compact := s.Compact(within(t), 1, false)
	_, granted := s.LeaseGrant(within(t), 2, 10)
	_, revoked := s.LeaseRevoke(within(t), 1)
	for name, err := range map[string]error{
		"put": put, "delete": del, "nested": inside, "compact": compact, "grant": granted, "revoke": revoked,
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if _, err := s.Txn(within(t), &Txn{Success: []Op{{Range: &RangeRequest{Key: []byte("a")}}}}); err != nil {
		t.Errorf("a read-only transaction returns %v", err)
	}
	if _, err := s.LeaseRenew(within(t), 1); err != nil {
		t.Errorf("a keep-alive returns %v", err)
	}
	if cleared, err := s.ClearAlarm(within(t), Alarm{Kind: AlarmCorrupt}); err != nil || cleared {
		t.Errorf("another member's alarm: %v, %v", cleared, err)
	}
	if cleared, err := s.ClearAlarm(within(t), alarm); err != nil || !cleared {
		t.Errorf("cleared %v, %v", cleared, err)
	}
	if _, err := s.LeaseRevoke(within(t), 1); err != nil {
		t.Error(err)
	}
}

// A list continues from its snapshot, however many transactions read newer revisions in between.
func TestReadOnlyTransactionsRetainTheSnapshotsOfLists(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	first := put(t, s, "a", "1")
	for !complete(s) {
		runtime.Gosched()
	}
	if _, keys := s.index.At(first); keys == nil {
		t.Fatal("no snapshot for a list")
	}
	for i := range 20 { // more than the index keeps snapshots
		want := fmt.Sprint(i)
		put(t, s, "a", want)
		res, err := s.Txn(within(t), &Txn{Success: []Op{{Range: &RangeRequest{Key: []byte("a")}}}})
		if err != nil || string(res.Results[0].Range.Rows[0].Value) != want {
			t.Fatalf("after %q: %+v, %v", want, res, err)
		}
	}
	if _, keys := s.index.At(first); keys == nil {
		t.Error("the list's snapshot was evicted")
	}
}
