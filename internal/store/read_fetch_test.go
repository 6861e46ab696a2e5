package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// gatedRows is a backend whose Rows calls block until the test releases them.
type gatedRows struct {
	backend.Backend
	asked chan []backend.RowID
	let   chan error
	size  int64 // that a row counts for
}

func (g *gatedRows) Rows(_ context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error) {
	g.asked <- ids
	if err := <-g.let; err != nil {
		return nil, backend.Clock{}, err
	}
	rows := make([]backend.Row, len(ids))
	for i, id := range ids {
		if id.ModRevision > 0 {
			rows[i] = backend.Row{Key: fmt.Append(nil, id.ModRevision), ModRevision: id.ModRevision}
		}
	}
	if bytes > 0 {
		rows = rows[:min(int64(len(rows)), (bytes+g.size-1)/g.size)]
	}
	return rows, backend.Clock{}, nil
}

type answer struct {
	rows []backend.Row
	err  error
}

// gather starts one read and queues more behind it. It returns a channel for the answer to each read.
func gather(ctx context.Context, t *testing.T, g *gatedRows, f *fetcher, revisions ...int64) []chan answer {
	t.Helper()
	out := make([]chan answer, len(revisions))
	for i, rev := range revisions {
		out[i] = make(chan answer, 1)
		go func() {
			rows, _, err := f.rows(ctx, []backend.RowID{{ModRevision: rev}}, 0)
			out[i] <- answer{rows, err}
		}()
		if i == 0 {
			if ids := <-g.asked; len(ids) != 1 || ids[0].ModRevision != rev {
				t.Fatalf("the first statement asked for %v", ids)
			}
			continue
		}
		for rowsInLine(f) != i {
			runtime.Gosched()
		}
	}
	return out
}

func newGated() (*gatedRows, *fetcher) {
	g := &gatedRows{asked: make(chan []backend.RowID), let: make(chan error)}
	f := newFetcher(context.Background(), &background{}, g, nil, 0)
	f.single.patience = 0 // the tests take their time
	return g, f
}

// rowsInLine counts the rows that wait for the next statement.
func rowsInLine(f *fetcher) int {
	f.single.mu.Lock()
	defer f.single.mu.Unlock()
	return len(f.single.queued)
}

func TestFetchTogether(t *testing.T) {
	g, f := newGated()
	answers := gather(t.Context(), t, g, f, 7, 8, 0, 9)
	g.let <- nil
	if ids := <-g.asked; len(ids) != 3 {
		t.Errorf("the second statement asked for %v, want the three waiting rows", ids)
	}
	g.let <- nil
	for i, want := range []int64{7, 8, 0, 9} {
		got := <-answers[i]
		if want == 0 {
			if !errors.Is(got.err, ErrCompacted) {
				t.Errorf("a missing row: %v, %v", got.rows, got.err)
			}
			continue
		}
		if got.err != nil || len(got.rows) != 1 || got.rows[0].ModRevision != want {
			t.Errorf("row of revision %d: %v, %v", want, got.rows, got.err)
		}
	}
	// The turn is free again: a later read does not wait.
	later := make(chan answer, 1)
	go func() {
		rows, _, err := f.rows(t.Context(), []backend.RowID{{ModRevision: 10}}, 0)
		later <- answer{rows, err}
	}()
	<-g.asked
	g.let <- nil
	if got := <-later; got.err != nil || got.rows[0].ModRevision != 10 {
		t.Errorf("a later read: %v, %v", got.rows, got.err)
	}
}

// A caller that cancels does not disturb the others' statement. A caller whose shared statement fails retries alone.
func TestFetchGivenUpAndFailed(t *testing.T) {
	g, f := newGated()
	ctx, cancel := context.WithCancel(t.Context())
	answers := gather(ctx, t, g, f, 7, 8)
	cancel()
	if got := <-answers[1]; !errors.Is(got.err, context.Canceled) {
		t.Errorf("canceled: %v", got.err)
	}
	other := make(chan answer, 1)
	go func() {
		rows, _, err := f.rows(t.Context(), []backend.RowID{{ModRevision: 9}}, 0)
		other <- answer{rows, err}
	}()
	for rowsInLine(f) == 0 {
		runtime.Gosched()
	}
	g.let <- nil
	if ids := <-g.asked; len(ids) != 1 || ids[0].ModRevision != 9 {
		t.Errorf("the statement for the remaining callers asked for %v", ids)
	}
	g.let <- errors.New("another's row is damaged")
	if ids := <-g.asked; len(ids) != 1 || ids[0].ModRevision != 9 {
		t.Errorf("the retry asked for %v", ids)
	}
	g.let <- nil
	if got := <-other; got.err != nil || got.rows[0].ModRevision != 9 {
		t.Errorf("after a failed statement: %v, %v", got.rows, got.err)
	}
}

// stuckRows is a backend of which some statements hang until the test ends them.
type stuckRows struct {
	backend.Backend
	mu    sync.Mutex
	stuck map[int64]chan struct{} // by revision
}

func (b *stuckRows) Rows(_ context.Context, ids []backend.RowID, _ int64) ([]backend.Row, backend.Clock, error) {
	rows := make([]backend.Row, len(ids))
	for i, id := range ids {
		b.mu.Lock()
		end := b.stuck[id.ModRevision]
		b.mu.Unlock()
		if end != nil {
			<-end
		}
		rows[i] = backend.Row{Key: []byte("k"), ModRevision: id.ModRevision}
	}
	return rows, backend.Clock{}, nil
}

// A statement that hangs holds up the rows of others for fetchPatience. Of several that hang, one more than
// fetchOvertaken stops the line until one of them ends.
func TestFetchBesideBlockedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &stuckRows{stuck: map[int64]chan struct{}{}}
		var work background
		f := newFetcher(t.Context(), &work, b, nil, 0)
		var wg sync.WaitGroup
		get := func(rev int64) {
			rows, _, err := f.rows(t.Context(), []backend.RowID{{ModRevision: rev}}, 0)
			if err != nil || len(rows) != 1 || rows[0].ModRevision != rev {
				t.Errorf("row of revision %d: %v, %v", rev, rows, err)
			}
		}
		block := func(rev int64) {
			b.mu.Lock()
			b.stuck[rev] = make(chan struct{})
			b.mu.Unlock()
			wg.Go(func() { get(rev) })
			synctest.Wait()
		}
		for hung := range int64(fetchOvertaken) {
			block(hung + 1)
			for range 3 {
				began := time.Now()
				get(100)
				if d := time.Since(began); d > fetchPatience {
					t.Errorf("beside %d statements that hang, a row took %v", hung+1, d)
				}
			}
		}
		block(fetchOvertaken + 1)
		var last time.Time
		wg.Go(func() { get(100); last = time.Now() })
		time.Sleep(time.Minute)
		if !last.IsZero() {
			t.Error("all statements that may hang do, and one more has run")
		}
		ended := time.Now()
		close(b.stuck[1])
		time.Sleep(fetchPatience)
		if synctest.Wait(); last.IsZero() || last.Sub(ended) > fetchPatience {
			t.Errorf("after one has ended, a row took %v", last.Sub(ended))
		}
		for rev := range int64(fetchOvertaken) {
			close(b.stuck[rev+2])
		}
		wg.Wait()
		began := time.Now()
		get(100)
		if d := time.Since(began); d != 0 || f.single.slow != 0 || f.single.busy {
			t.Errorf("at the end: a row took %v, %d are overtaken, busy: %v", d, f.single.slow, f.single.busy)
		}
		work.close()
	})
}

// Every caller gets its own row, however many callers ask at once.
func TestFetchConcurrently(t *testing.T) {
	g, f := newGated()
	go func() {
		for range g.asked {
			g.let <- nil
		}
	}()
	var wg sync.WaitGroup
	for i := range int64(16) {
		wg.Go(func() {
			for n := range int64(200) {
				want := i*1000 + n + 1
				rows, _, err := f.rows(context.Background(), []backend.RowID{{ModRevision: want}}, 0)
				if err != nil || len(rows) != 1 || rows[0].ModRevision != want {
					t.Errorf("row of revision %d: %v, %v", want, rows, err)
				}
			}
		})
	}
	wg.Wait()
	close(g.asked)
}

// A compaction is committed a moment before it is published. In between, a read of the current revision retries, and a
// read of that revision by number fails.
func TestReadMeetsAnUnpublishedCompaction(t *testing.T) {
	var met atomic.Bool
	f := &faults{Backend: openSQLite(t)}
	f.beforeRange = func(_ context.Context, q backend.RangeQuery) error {
		if string(q.Span.Start) == "k" && !met.Swap(true) {
			return ErrCompacted
		}
		return nil
	}
	s := openStore(t, f, Config{DisableIndex: true})
	rev := put(t, s, "k", "v")
	met.Store(false)
	res, err := s.Range(within(t), &RangeRequest{Key: []byte("k")})
	if err != nil || len(res.Rows) != 1 || !met.Load() {
		t.Errorf("the current revision: %+v, %v", res, err)
	}
	met.Store(false)
	if res, err = s.Range(within(t), &RangeRequest{Key: []byte("k"), Revision: rev}); !errors.Is(err, ErrCompacted) {
		t.Errorf("revision %d: %+v, %v", rev, res, err)
	}
}
