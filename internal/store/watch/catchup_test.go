package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// A slow watch becomes unsynced again and again, and catches up from the window and from the database.
func TestSlowWatchIsResumed(t *testing.T) {
	for name, window := range map[string]int64{"window": 1 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := open(t, Config{WindowBytes: window, WatcherBytes: 1000})
				st := newStream(t, m)
				id := created(t, st, everything(0))
				for range 3 {
					first := m.revision() + 1
					for range 50 {
						m.many(3, 3, 50)
					}
					if isSynced(st, id) || m.Stats().Slow != 1 {
						t.Fatal("the watch is not too slow")
					}
					st.mu.Lock()
					if waiting := st.watches[id].bytes; waiting > 2000 {
						t.Errorf("%d bytes wait for the watch", waiting)
					}
					st.mu.Unlock()
					expectRevisions(t, st, first, m.revision(), 3)
					if synctest.Wait(); !isSynced(st, id) {
						t.Fatal("the watch does not catch up")
					}
				}
			})
		})
	}
}

// A database that does not answer delays a watch that catches up, and nothing else.
func TestCatchUpIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Config{WindowBytes: 1})
		reads := 0 // by one reader
		m.beforeHistory = func() error {
			if reads++; reads == 1 {
				return fmt.Errorf("not now: %w", backend.ErrUnavailable)
			}
			return nil
		}
		m.many(3, 1, 1)
		st := newStream(t, m)
		created(t, st, everything(2))
		synctest.Wait() // the read fails
		m.put("a", "meanwhile")
		expectRevisions(t, st, 2, 5, 1)
		if reads < 2 {
			t.Errorf("%d reads", reads)
		}
	})
}

// However long the database does not answer, and however many watches wait for it, the log has a line a minute.
func TestCatchUpThatFailsIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := open(t, Config{WindowBytes: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		const outage = 150 * time.Second
		began := time.Now()
		m.beforeHistory = func() error {
			if time.Since(began) < outage {
				return fmt.Errorf("not now: %w", backend.ErrUnavailable)
			}
			return nil
		}
		m.many(3, 1, 1)
		streams := make([]*Stream, 10)
		for i := range streams {
			streams[i] = newStream(t, m)
			created(t, streams[i], everything(2))
		}
		time.Sleep(outage)
		for _, st := range streams {
			expectRevisions(t, st, 2, 4, 1)
		}
		synctest.Wait()
		if failed, again := strings.Count(log.String(), "cannot catch up"), strings.Count(log.String(),
			"catch up again"); failed != 3 || again != 1 {
			t.Errorf("%d and %d lines:\n%s", failed, again, &log)
		}
	})
}

// A server that lags behind the published revision sends nothing to watches that catch up. They query it again after a
// pause.
func TestCatchUpFromServerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := open(t, Config{WindowBytes: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		m.many(5, 1, 10)
		m.mu.Lock()
		clock, rows := m.clock, m.rows
		m.clock.Revision, m.rows = 1, nil
		m.mu.Unlock()
		st := newStream(t, m)
		created(t, st, everything(2))
		got := make(chan *Response, 1)
		go func() { got <- next(t, st) }()
		synctest.Wait()
		if len(got) > 0 || !strings.Contains(log.String(), "watches cannot catch up yet") {
			t.Fatalf("the log is %q", &log)
		}
		m.mu.Lock()
		m.clock, m.rows = clock, rows
		m.mu.Unlock()
		if r := <-got; len(r.Events) == 0 || r.Events[0].Row.ModRevision != 2 {
			t.Errorf("got %+v", r)
		}
	})
}

// A compaction overtakes a watch that reads from the database.
func TestCompactionEndsAWatchThatCatchesUp(t *testing.T) {
	m := open(t, Config{WindowBytes: 1})
	reading, release := make(chan struct{}), make(chan struct{})
	m.beforeHistory = func() error {
		select {
		case <-reading:
		default:
			close(reading)
			<-release
		}
		return nil
	}
	m.many(5, 1, 0)
	st := newStream(t, m)
	id := created(t, st, everything(2))
	<-reading
	m.compact(5)
	close(release)
	if r := next(t, st); r.ID != id || !r.Canceled || r.CompactRevision != 5 || r.Revision != 0 {
		t.Fatalf("got %+v", r)
	}
	created(t, st, everything(5))
	expectRevisions(t, st, 5, 6, 1)
}

// A watch of the past is served even if a compaction removes the history of another watch of the same keys before it is
// read.
func TestCatchUpBesideCompacted(t *testing.T) {
	m := open(t, Config{WindowBytes: 1})
	m.many(20, 1, 10)
	st := newStream(t, m)
	late, early := everything(15), everything(5)
	late.ID, early.ID = 1, 2
	st.Watch(late)
	st.Watch(early)
	m.compact(10)
	for canceled, last := false, int64(14); !canceled || last < m.revision(); {
		switch r := next(t, st); {
		case r.Canceled && r.ID == early.ID && r.CompactRevision == 10:
			canceled = true
		case r.ID == late.ID && len(r.Events) > 0:
			for _, e := range r.Events {
				if last++; e.Row.ModRevision != last {
					t.Fatalf("revision %d came instead of %d", e.Row.ModRevision, last)
				}
			}
		case !r.Created:
			t.Fatalf("got %+v", r)
		}
	}
}

// A chunk chosen before history is lost is not read from the history that replaces it, whoever notices the loss.
func TestChunksOfOneEpoch(t *testing.T) {
	m := open(t, Config{WindowBytes: 1})
	m.many(3, 1, 0)
	m.Hub.mu.Lock()
	m.readers = catchUpReads // the test is the reader
	m.Hub.mu.Unlock()
	st := newStream(t, m)
	created(t, st, everything(m.revision()))
	m.requestEvents(st)
	p, ready := m.choose()
	if p == nil || ready {
		t.Fatalf("chose %+v, %v", p, ready)
	}
	m.lose(2)
	m.mu.Lock()
	for range 3 { // written by another replica
		m.clock.Revision++
		m.rows = append(m.rows, backend.Row{Key: []byte("k"), ModRevision: m.clock.Revision})
	}
	clock := m.clock
	m.mu.Unlock()
	if err := m.readChunk(t.Context(), p); !errors.Is(err, backend.ErrOtherEpoch) {
		t.Errorf("read %d events, %v", len(p.events), err)
	}
	p.failed = true
	m.Reset(clock, true)
	m.deliver(p)
	if r := next(t, st); !r.Canceled || len(r.Events) > 0 {
		t.Errorf("got %+v", r)
	}
}

// The row that a change superseded is looked up in the history of that change.
func TestSupersededOfOneEpoch(t *testing.T) {
	m := open(t, Config{})
	m.put("k", "1")
	rev := m.put("k", "2")
	superseded := func(rev, epoch int64) (*index.Item, error) {
		row := backend.Row{Key: []byte("k"), ModRevision: rev}
		return Superseded(t.Context(), m, &backend.Change{Row: row, Prev: &row}, epoch) // changed twice
	}
	if it, err := superseded(rev, 1); err != nil || it == nil || string(it.Value) != "1" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, err := superseded(rev, 2); !errors.Is(err, backend.ErrOtherEpoch) {
		t.Errorf("in another epoch: %v", err)
	}
	if _, err := superseded(rev+5, 1); !errors.Is(err, backend.ErrServerBehind) {
		t.Errorf("on a server that is behind: %v", err)
	}
}

// Watches of many prefixes that continue at nearby revisions, like those of a restarted server, share their reads.
func TestNearbyWatchesShareReads(t *testing.T) {
	const objects, streams, watches = 2000, 4, 50
	var reads atomic.Int64
	gate := make(chan struct{})
	m := open(t, Config{WindowBytes: 1})
	m.beforeHistory = func() error {
		reads.Add(1)
		<-gate // until all have arrived
		return nil
	}
	m.many(objects, 1, 10)
	var all []*Stream
	for i := range streams {
		st := newStream(t, m)
		all = append(all, st)
		for j := range watches {
			n := i*watches + j // 10 objects each
			st.Watch(Request{
				Key: fmt.Appendf(nil, "k%05d", n), End: fmt.Appendf(nil, "k%05d", n+1), StartRevision: int64(2 + n%7),
			})
		}
		for range watches {
			next(t, st)
		}
	}
	close(gate)
	for i, st := range all {
		got := 0
		for _, w := range st.watches {
			n := i*watches + int(w.req.ID)
			for j := range 10 {
				if 10*n+j+2 >= 2+n%7 {
					got++
				}
			}
		}
		for got > 0 {
			got -= len(next(t, st).Events)
		}
	}
	// Separate reads need at least one per watch.
	if n := reads.Load(); n > streams*watches/2 {
		t.Errorf("%d reads for %d watches", n, streams*watches)
	}
}
