package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A list or a compare of many values that are not in memory asks for each of them once, and in parts. A compare ends
// with the part that decides it.
func TestManyValuesAreReadOnce(t *testing.T) {
	const rows = 2*heldRows + 10
	var asked, most atomic.Int64
	f := &faults{Backend: openSQLite(t)}
	f.beforeRows = func(_ context.Context, ids []backend.RowID) error {
		asked.Add(int64(len(ids)))
		most.Store(max(most.Load(), int64(len(ids))))
		return nil
	}
	s := openStore(t, f, Config{CacheBytes: 1})
	many(t, s, rows, rows, 10)
	put(t, s, "k999999", "last")
	eventually(t, "the index is complete", s.index.Complete)
	key, end := []byte("k"), []byte("l")
	compare := func(result CompareResult, value string, want bool) func() {
		return func() {
			res, err := s.Txn(within(t), &Txn{
				Compare: []Compare{{Key: key, End: end, Target: CompareValue, Result: result, Value: []byte(value)}},
				Success: []Op{{Put: &PutRequest{Key: []byte("other"), Value: []byte("v")}}},
			})
			if err != nil || res.Succeeded != want {
				t.Errorf("%+v, %v; want %v", res, err, want)
			}
		}
	}
	for name, c := range map[string]struct {
		read func()
		want int64
	}{
		"list": {func() {
			res, err := s.Range(within(t), &RangeRequest{Key: key, End: end, Target: SortCreate, Order: SortDescend})
			if err != nil || len(res.Rows) != rows+1 || string(res.Rows[0].Value) != "last" {
				t.Errorf("%d rows, %v", len(res.Rows), err)
			}
		}, rows + 1},
		"holds":            {compare(CompareNotEqual, "other", true), rows + 1},
		"fails at first":   {compare(CompareEqual, "other", false), heldRows},
		"fails at the end": {compare(CompareNotEqual, "last", false), rows + 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			most.Store(0)
			c.read()
			if n := asked.Load(); n != c.want || most.Load() > heldRows {
				t.Errorf("asked for %d values, at most %d at a time, want %d, %d", n, most.Load(), c.want, heldRows)
			}
		})
	}
}

// A compare covers all values that are too large for one statement together. It ends with its caller, and a read-only
// transaction accounts for one part of them at a time.
func TestCompareOfLargeValues(t *testing.T) {
	const rows, size = 8, heldBytes/2 + 1
	var calls, most atomic.Int64
	var s *Store
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var cancelAt int64
	f := &faults{Backend: openSQLite(t)}
	f.beforeRows = func(context.Context, []backend.RowID) error {
		most.Store(max(most.Load(), reserved(s)))
		if calls.Add(1) == cancelAt {
			cancel()
		}
		return nil
	}
	s = openStore(t, f, Config{CacheBytes: 1})
	for i := range rows {
		put(t, s, fmt.Sprint("k", i), strings.Repeat(fmt.Sprint(i), size))
	}
	eventually(t, "the index is complete", s.index.Complete)
	compare := Compare{Key: []byte("k"), End: []byte("l"), Target: CompareValue, Result: CompareLess}
	for i := range rows + 1 { // the values of the first i keys are less
		compare.Value = []byte(fmt.Sprint(i))
		for _, ops := range [][]Op{{{Put: &PutRequest{Key: []byte("other")}}}, nil} {
			calls.Store(0)
			res, err := s.Txn(ctx, &Txn{Compare: []Compare{compare}, Success: ops})
			if n := calls.Load(); err != nil || res.Succeeded != (i == rows) || res.Succeeded && n != rows/2 {
				t.Errorf("value %d: %+v after %d statements, %v", i, res, n, err)
			}
		}
	}
	if n := most.Load(); n == 0 || n > 2*heldBytes {
		t.Errorf("accounted for %d bytes at most", n)
	}
	calls.Store(0)
	cancelAt = 1
	_, err := s.Txn(ctx, &Txn{Compare: []Compare{compare}, Success: []Op{{Put: &PutRequest{Key: []byte("other")}}}})
	put(t, s, "other", "") // after that transaction has ended
	if n := calls.Load(); !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%v after %d statements", err, n)
	}
}
