// Package backendtest is the suite that every backend must pass: what a caller of [backend.Backend] may rely on, method
// by method, and then random operations compared with a model in memory.
//
// SQLSTORE_TEST_LENGTH raises how many random operations there are, and reads beside writes.
//
// A backend's own tests call [Run], and test what only that database has, such as its files or query plans.
package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Hooks are optional capabilities of a backend.
type Hooks struct {
	// Reopen closes b and opens the same data again. Without it, Run omits the tests across a restart.
	Reopen func(t *testing.T, b backend.Backend) backend.Backend
	// Execute runs a statement on the database of b, beside b. The suite uses SQL that all databases understand.
	// Without it, Run omits the tests of damaged rows.
	Execute func(t *testing.T, b backend.Backend, statement string)
	// View opens the database of b for reading. Without it, Run omits the tests of views and inspections.
	View func(t *testing.T, b backend.Backend) backend.View
	// Only names the tests to run, nil for all: for a further mode of a backend that has passed all of them.
	Only []string
}

// Run tests the backends that open makes. Each must be new and empty. open registers its own cleanup, which must
// tolerate a closed backend.
func Run(t *testing.T, open func(t *testing.T) backend.Backend, hooks Hooks) {
	chosen := choose(hooks.Only)
	run := func(name string, possible bool, test func(*fixture)) {
		if !possible || !chosen.has(name) {
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFixture(t, open(t), hooks))
		})
	}
	for _, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"Fresh", testFresh},
		{"RowsAreComplete", testRowsAreComplete},
		{"KeyOrder", testKeyOrder},
		{"Spans", testSpans},
		{"LongKeys", testLongKeys},
		{"PinnedReads", testPinnedReads},
		{"PutAndDeleteAtOneRevision", testPutAndDelete},
		{"RowsByID", testRowsByID},
		{"BytesOfRanges", testBytesOfRanges},
		{"BytesOfRows", testBytesOfRows},
		{"BytesOfHistory", testBytesOfHistory},
		{"HistoryWholeRevisions", testHistoryWholeRevisions},
		{"HistoryOfSpans", testHistoryOfSpans},
		{"HistoryOfRareKeys", testHistoryOfRareKeys},
		{"HistoryWithPrev", testHistoryWithPrev},
		{"BeginLoads", testBeginLoads},
		{"BeginLoadsLeases", testBeginLoadsLeases},
		{"BeginExcludes", testBeginExcludes},
		{"Rollback", testRollback},
		{"RefusedCommitChangesNothing", testRefusedCommit},
		{"CompactedNeverFalls", testCompactedNeverFalls},
		{"LastRevision", testLastRevision},
		{"LeasesAndAlarms", testLeasesAndAlarms},
		{"Times", testTimes},
		{"DatedRows", testDatedRows},
		{"TokenKeys", testTokenKeys},
		{"Programs", testPrograms},
		{"TokenKeysByMany", testTokenKeysByMany},
		{"Import", testImport},
		{"ImportTakenOver", testImportTakenOver},
		{"RemainingTimeOfLeases", testRemaining},
		{"Auth", testAuth},
		{"AuthTokens", testAuthTokens},
		{"PurgeKeepsWhatIsSeen", testPurgeRetains},
		{"PurgeInSteps", testPurgeInSteps},
		{"PurgeUntil", testPurgeUntil},
		{"SpaceIsReclaimed", testSpaceIsReclaimed},
		{"ReadsDuringWrites", testReadsDuringWrites},
		{"Contexts", testContexts},
		{"Close", testClose},
		{"Random", testRandom},
	} {
		run(c.name, true, c.test)
	}
	run("Reopen", hooks.Reopen != nil, testReopen)
	run("HistoryOfMovedRows", hooks.Execute != nil, testHistoryOfMovedRows)
	run("CorruptRows", hooks.Execute != nil, testCorruptRows)
	run("CorruptPurge", hooks.Execute != nil, testCorruptPurge)
	run("CorruptPurgeOfMany", hooks.Execute != nil, testCorruptPurgeOfMany)
	run("Verify", hooks.Execute != nil, testVerify)
	run("Inspect", hooks.Execute != nil && hooks.View != nil, testInspect)
	if hooks.View != nil && chosen.has("View") {
		t.Run("View", func(t *testing.T) { testView(t, open, hooks) })
	}
	chosen.verify(t)
}

// choice is which tests of a suite to run.
type choice struct {
	all  bool
	left []string // that the suite has not had yet
}

// choose returns the choice of the tests named, of all if only is nil.
func choose(only []string) *choice { return &choice{all: only == nil, left: slices.Clone(only)} }

func (c *choice) has(name string) bool {
	i := slices.Index(c.left, name)
	if i >= 0 {
		c.left = slices.Delete(c.left, i, i+1)
	}
	return c.all || i >= 0
}

// verify fails if the suite has had no test of a name that was chosen.
func (c *choice) verify(t *testing.T) {
	if len(c.left) > 0 {
		t.Errorf("no such tests: %v", c.left)
	}
}

// fixture is a backend under test with the model of what it should contain.
type fixture struct {
	*testing.T
	b     backend.Backend
	m     *model
	hooks Hooks
}

// ok fails unless err is nil.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func newFixture(t *testing.T, b backend.Backend, hooks Hooks) *fixture {
	t.Helper()
	c, err := b.Clock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, b: b, m: newModel(c), hooks: hooks}
}

// op is one change of a key: put with a value or, when delete is set, a tombstone.
type op struct {
	key, value string
	delete     bool
	lease      int64
}

func put(key, value string) op { return op{key: key, value: value} }

func del(key string) op { return op{key: key, delete: true} }

// commit applies transactions, each at its own revision, in one commit.
func (f *fixture) commit(txns ...[]op) {
	f.Helper()
	var e backend.Effects
	for _, ops := range txns {
		e.Rows = append(e.Rows, f.m.add(ops)...)
	}
	f.apply(&e)
}

// apply commits e, whose rows the model already has, and advances the model's clock.
func (f *fixture) apply(e *backend.Effects) {
	f.Helper()
	ctx := context.Background()
	e.Revision = f.m.clock.Revision
	tx, err := f.b.Begin(ctx, backend.Needs{})
	if err != nil {
		f.Fatal(err)
	}
	if err := tx.Commit(ctx, e); err != nil {
		f.Fatal(err)
	}
	if e.Compacted != 0 {
		f.m.clock.Compacted = e.Compacted
	}
	got, err := f.b.Clock(ctx)
	if err != nil || got != f.m.clock {
		f.Fatalf("clock after the commit: %+v, %v; want %+v", got, err, f.m.clock)
	}
}

func (f *fixture) compact(revision int64) {
	f.Helper()
	f.apply(&backend.Effects{Compacted: revision})
}

// purge runs steps of the given limit until one reports that it is done.
func (f *fixture) purge(limit int) (removed int) {
	f.Helper()
	for range 10_000 {
		res, err := f.b.Purge(context.Background(), limit, math.MaxInt64)
		switch {
		case err != nil:
			f.Fatal(err)
		case res.Removed > limit:
			f.Fatalf("a step of %d rows removed %d", limit, res.Removed)
		case res.Through > f.m.clock.Compacted || res.Done && res.Through != f.m.clock.Compacted:
			f.Fatalf("purged through %d, done: %t, compacted is %d", res.Through, res.Done, f.m.clock.Compacted)
		}
		removed += res.Removed
		if res.Done {
			return removed
		}
	}
	f.Fatal("purging does not finish")
	return 0
}

// checkRange compares a range and its count with the model's.
func (f *fixture) checkRange(q backend.RangeQuery) {
	f.Helper()
	rows, clock, err := f.b.Range(context.Background(), q)
	if err != nil {
		f.Fatalf("range %s: %v", describe(q), err)
	}
	if clock != f.m.clock {
		f.Fatalf("range %s: clock %+v, want %+v", describe(q), clock, f.m.clock)
	}
	want := f.m.rangeAt(q.Span, q.Revision)
	n, clock, err := f.b.Count(context.Background(), q)
	if err != nil || n != int64(len(want)) || clock != f.m.clock {
		f.Fatalf("count %s: %d, clock %+v, %v; want %d, %+v", describe(q), n, clock, err, len(want), f.m.clock)
	}
	f.compare("range "+describe(q), rows, within(want[:min(len(want), q.Limit)], q.Bytes, q.KeysOnly), q.KeysOnly)
}

// compare fails unless the rows are the same. An empty value differs from none.
func (f *fixture) compare(what string, got, want []backend.Row, keysOnly bool) {
	f.Helper()
	if len(got) != len(want) {
		f.Fatalf("%s: %d rows, want %d\n got %s\nwant %s", what, len(got), len(want), show(got), show(want))
	}
	for i := range got {
		w := want[i]
		if keysOnly {
			w.Value = nil
		}
		if !same(got[i], w) {
			f.Fatalf("%s: row %d is\n     %s\nwant %s", what, i, show(got[i:i+1]), show([]backend.Row{w}))
		}
	}
}

func same(a, b backend.Row) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) &&
		a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.Lease == b.Lease && a.PrevRevision == b.PrevRevision && a.Ordinal == b.Ordinal && a.Deleted == b.Deleted
}

func show(rows []backend.Row) string {
	var s []string
	for _, r := range rows {
		v := fmt.Sprintf("%.20q", r.Value)
		if r.Value == nil {
			v = "nil"
		}
		s = append(s, fmt.Sprintf("%q=%s@%d.%d create %d version %d lease %d prev %d deleted %t",
			r.Key, v, r.ModRevision, r.Ordinal, r.CreateRevision, r.Version, r.Lease, r.PrevRevision, r.Deleted))
	}
	return fmt.Sprint(s)
}

func describe(q backend.RangeQuery) string {
	return fmt.Sprintf("%s at %d, limit %d, bytes %d, keys only: %t", describeSpan(q.Span), q.Revision, q.Limit,
		q.Bytes, q.KeysOnly)
}

func describeSpan(s backend.Span) string {
	switch {
	case s.End == nil:
		return fmt.Sprintf("%q", s.Start)
	case len(s.End) == 0:
		return fmt.Sprintf("[%q, ...)", s.Start)
	}
	return fmt.Sprintf("[%q, %q)", s.Start, s.End)
}

// span is [start, end).
func span(start, end string) backend.Span {
	return backend.Span{Start: []byte(start), End: []byte(end)}
}

// from is [start, ...).
func from(start string) backend.Span { return backend.Span{Start: []byte(start), End: []byte{}} }

// only is a single key.
func only(key string) backend.Span { return backend.Span{Start: []byte(key)} }

// wantErr fails unless err is the sentinel.
func (f *fixture) wantErr(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: %v, want %v", what, err, want)
	}
}

func keysOf(rows []backend.Row) (keys []string) {
	for _, r := range rows {
		keys = append(keys, string(r.Key))
	}
	return slices.Clip(keys)
}
