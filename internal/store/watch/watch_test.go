package watch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

func TestWatchFromTheFuture(t *testing.T) {
	m := open(t, Config{})
	st := newStream(t, m)
	created(t, st, everything(4))
	st.RequestProgress() // not answered while the watch waits for the future
	for _, value := range []string{"2", "3", "4", "5"} {
		m.put("a", value)
	}
	expectRevisions(t, st, 4, 5, 1)
}

// A watch of the present begins after the revision that reads have returned, even if that is a moment ahead of the hub.
func TestWatchBeginsBehindReads(t *testing.T) {
	m := open(t, Config{})
	st := newStream(t, m)
	m.mu.Lock()
	m.clock.Revision++ // committed and not published yet
	rev := m.clock.Revision
	m.mu.Unlock()
	st.Watch(everything(0))
	if r := next(t, st); !r.Created || r.Revision != rev {
		t.Errorf("got %+v, want revision %d", r, rev)
	}
	row := backend.Row{Key: []byte("a"), ModRevision: rev}
	m.Publish([]*index.Item{index.NewItem(row)}, []*index.Item{nil}, rev, 0)
	expectRevisions(t, st, rev+1, m.put("a", ""), 1)
}

// As in etcd, the header of what a watch has missed has the current revision, and that of a new event the event's.
func TestHeaders(t *testing.T) {
	m := open(t, Config{})
	st := newStream(t, m)
	first := m.put("a", "")
	now := m.put("b", "")
	w := everything(first)
	w.Key, w.End = []byte("a"), nil
	created(t, st, w)
	if r := next(t, st); len(r.Events) != 1 || r.Revision != now {
		t.Errorf("%d missed events with the revision %d, want 1 with %d", len(r.Events), r.Revision, now)
	}
	live := m.put("a", "")
	if r := next(t, st); len(r.Events) != 1 || r.Revision != live {
		t.Errorf("%d new events with the revision %d, want 1 with %d", len(r.Events), r.Revision, live)
	}
}

// The header of what a watch has missed does not cover what is committed while the response is made, and headers never
// go back.
func TestHeadersBesideWrites(t *testing.T) {
	m := open(t, Config{})
	m.cold = true
	m.put("a", "")
	missed := m.put("a", "")
	m.beforeRows = func() error {
		m.beforeRows = nil
		for range 3 {
			m.put("a", string(make([]byte, responseBytes/2)))
		}
		return nil
	}
	st := newStream(t, m)
	w := everything(missed)
	w.Key, w.End, w.PrevKV = []byte("a"), nil, true
	created(t, st, w)
	for had, header := int64(0), int64(0); had < missed+3; {
		r := next(t, st)
		if had = r.Events[len(r.Events)-1].Row.ModRevision; r.Revision < header || r.Revision != had {
			t.Errorf("header %d after %d, with events up to %d", r.Revision, header, had)
		}
		header = r.Revision
	}
}

func TestWatchIDs(t *testing.T) {
	st := newStream(t, open(t, Config{}))
	w := everything(0)
	w.ID = 1
	if id := created(t, st, w); id != 1 {
		t.Errorf("asked for 1, got %d", id)
	}
	for _, want := range []int64{0, 2, 3} {
		if id := created(t, st, everything(0)); id != want {
			t.Errorf("got id %d, want %d", id, want)
		}
	}
	st.Watch(w)
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, ErrDuplicateID) {
		t.Errorf("a used id returns %+v", r)
	}
	st.Cancel(3)
	if r := next(t, st); r.ID != 3 || !r.Canceled {
		t.Errorf("got %+v", r)
	}
	if id := created(t, st, everything(0)); id != 4 {
		t.Errorf("ids restart at %d", id)
	}
	st.Watch(everything(-1))
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, backend.ErrCompacted) || !r.Created || !r.Canceled {
		t.Errorf("a negative start returns %+v", r)
	}
	st.Watch(Request{Key: []byte("b"), End: []byte("a")})
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, ErrEmptyRange) || !r.Created || !r.Canceled {
		t.Errorf("an empty range returns %+v", r)
	}
}

// The id of a watch that compaction has canceled stays in use until the client cancels it, which is confirmed once.
func TestCancelAfterCompaction(t *testing.T) {
	m := open(t, Config{})
	m.many(5, 1, 0)
	m.compact(5)
	st := newStream(t, m)
	w := everything(2)
	w.ID = 7
	st.Watch(w)
	for _, created := range []bool{true, false} {
		if r := next(t, st); r.ID != 7 || r.Created != created || r.Canceled == created {
			t.Fatalf("got %+v", r)
		}
	}
	w.StartRevision = 0
	st.Watch(w)
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, ErrDuplicateID) {
		t.Errorf("the id of a compacted watch returns %+v", r)
	}
	st.Cancel(7)
	if r := next(t, st); r.ID != 7 || !r.Canceled || r.CompactRevision != 0 || r.Revision == 0 {
		t.Errorf("got %+v", r)
	}
	st.Cancel(7) // is not answered
	if id := created(t, st, w); id != 7 {
		t.Errorf("asked for 7, got %d", id)
	}
}

// A stream remembers a limited number of watches that compaction has canceled.
func TestManyCompactedWatches(t *testing.T) {
	m := open(t, Config{})
	m.many(5, 1, 0)
	m.compact(5)
	st := newStream(t, m)
	for range compactedMax + 1 {
		st.Watch(everything(2))
		next(t, st)
		next(t, st)
	}
	if n := len(st.compacted); n != compactedMax {
		t.Errorf("remembers %d watches, want %d", n, compactedMax)
	}
}

// A watch gets the events of its keys, of the kinds that it requests, and superseded rows if it asks for them.
func TestWatchFilters(t *testing.T) {
	tests := map[string]struct {
		req  Request
		want []int64 // revisions
	}{
		"one key":    {Request{Key: []byte("b")}, []int64{3, 5}},
		"a range":    {Request{Key: []byte("a"), End: []byte("b")}, []int64{2}},
		"from a key": {Request{Key: []byte("b"), End: []byte{0}}, []int64{3, 4, 5}},
		"puts":       {Request{Key: []byte("b"), NoDelete: true}, []int64{3}},
		"tombstones": {Request{Key: []byte("b"), NoPut: true}, []int64{5}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, from := range []struct{ start, window int64 }{{start: 0}, {start: 2}, {start: 2, window: 1}} {
				m := open(t, Config{WindowBytes: from.window})
				st := newStream(t, m)
				write := func() {
					m.put("a", "1")
					m.put("b", "2")
					m.put("c", "3")
					m.commit(backend.Row{Key: []byte("b"), Deleted: true})
				}
				if from.start > 0 {
					write()
				}
				req := test.req
				req.StartRevision, req.PrevKV = from.start, true
				created(t, st, req)
				if from.start == 0 {
					write()
				}
				var got []int64
				for len(got) < len(test.want) {
					for _, e := range next(t, st).Events {
						got = append(got, e.Row.ModRevision)
						if prev := e.Prev != nil && string(e.Prev.Value) == "2"; prev != e.Row.Deleted {
							t.Errorf("revision %d superseded %+v", e.Row.ModRevision, e.Prev)
						}
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(test.want) {
					t.Errorf("%+v: revisions %v, want %v", from, got, test.want)
				}
			}
		})
	}
}

// After the answer to its cancellation a watch sends nothing, even if events were waiting.
func TestCancelDropsWhatWaits(t *testing.T) {
	m := open(t, Config{})
	st := newStream(t, m)
	one, two := created(t, st, everything(0)), created(t, st, everything(0))
	m.put("a", "")
	st.Cancel(one)
	if r := next(t, st); r.ID != one || !r.Canceled {
		t.Fatalf("got %+v", r)
	}
	for range 2 {
		if r := next(t, st); r.ID != two || len(r.Events) != 1 {
			t.Fatalf("got %+v", r)
		}
		m.put("b", "")
	}
}

// A watch that ends while a response with its events is being built has nothing to take back.
func TestWatchEndsWhileItsEventsAreSent(t *testing.T) {
	m := open(t, Config{WatchBytes: 1 << 10})
	reading, finish := make(chan struct{}), make(chan struct{})
	m.cold = true
	m.beforeRows = func() error {
		close(reading)
		<-finish
		return nil
	}
	m.put("a", "first")
	st := newStream(t, m)
	id := created(t, st, Request{Key: []byte("a"), PrevKV: true})
	created(t, st, Request{Key: []byte("b")})
	m.put("a", "second")
	got := make(chan *Response, 1)
	go func() { got <- next(t, st) }()
	<-reading
	st.Cancel(id)
	m.put("b", string(make([]byte, 4<<10))) // more than all watches may hold
	close(finish)
	if r := <-got; r.ID != id || len(r.Events) != 1 {
		t.Errorf("got %+v", r)
	}
	if r := next(t, st); r.ID != id || !r.Canceled {
		t.Errorf("got %+v", r)
	}
	if r := next(t, st); len(r.Events) != 1 || string(r.Events[0].Row.Key) != "b" {
		t.Errorf("got %+v", r)
	}
	if n := m.Stats().PendingBytes; n != 0 {
		t.Errorf("%d bytes are counted, and nothing waits", n)
	}
}

// A row superseded at or below the compacted revision is not shown, whether or not it still exists.
func TestCompactedRowsAreNotShown(t *testing.T) {
	for name, window := range map[string]int64{"window": 1 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Config{WindowBytes: window})
			m.put("a", "2")
			m.put("a", "3")
			m.put("a", "4")
			m.compact(3)
			st := newStream(t, m)
			created(t, st, Request{Key: []byte("a"), StartRevision: 3, PrevKV: true})
			r := next(t, st)
			if len(r.Events) != 2 || r.Events[0].Prev != nil || r.Events[1].Prev == nil ||
				string(r.Events[1].Prev.Value) != "3" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A transaction that changes one key twice is shown as in etcd: the superseded row is the one before the transaction,
// whether the events come from the hub or from the database.
func TestKeyChangedTwiceInOneRevision(t *testing.T) {
	for name, window := range map[string]int64{"window": 1 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Config{WindowBytes: window})
			m.put("a", "before")
			w := everything(0)
			w.PrevKV = true
			live := newStream(t, m)
			created(t, live, w)
			w.StartRevision = m.commit(backend.Row{Key: []byte("a"), Value: []byte("inside")},
				backend.Row{Key: []byte("a"), Deleted: true})
			replay := newStream(t, m)
			created(t, replay, w)
			for _, st := range []*Stream{live, replay} {
				r := next(t, st)
				if len(r.Events) != 2 || r.Events[0].Row.Deleted || !r.Events[1].Row.Deleted {
					t.Fatalf("got %+v", r)
				}
				for _, e := range r.Events {
					if e.Prev == nil || string(e.Prev.Value) != "before" {
						t.Errorf("revision %d superseded %+v", e.Row.ModRevision, e.Prev)
					}
				}
			}
		})
	}
}
