package backendtest

import (
	"context"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// viewed is a backend whose reads go through a view of its database.
type viewed struct {
	backend.Backend
	view backend.View
}

func (v viewed) Clock(ctx context.Context) (backend.Clock, error) { return v.view.Clock(ctx) }

func (v viewed) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	return v.view.Range(ctx, q)
}

func (v viewed) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	return v.view.History(ctx, q)
}

// testView repeats the tests of reads through a view, while the backend writes.
func testView(t *testing.T, open func(t *testing.T) backend.Backend, hooks Hooks) {
	for _, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"RowsAreComplete", testRowsAreComplete},
		{"Spans", testSpans},
		{"LongKeys", testLongKeys},
		{"PinnedReads", testPinnedReads},
		{"BytesOfRanges", testBytesOfRanges},
		{"BytesOfHistory", testBytesOfHistory},
		{"HistoryOfSpans", testHistoryOfSpans},
		{"HistoryWithPrev", testHistoryWithPrev},
		{"PurgeKeepsWhatIsSeen", testPurgeRetains},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open(t), hooks)
			f.b = viewed{f.b, f.view()}
			c.test(f)
		})
	}
}
