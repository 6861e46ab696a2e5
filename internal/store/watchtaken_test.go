package store

import (
	"context"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A watch that ends while a response with its events is being made has nothing that could be taken back.
func TestWatchEndsWhileItsEventsAreSent(t *testing.T) {
	reading, finish := make(chan struct{}), make(chan struct{})
	f := &faults{Backend: openSQLite(t)}
	var once sync.Once
	f.beforeRows = func(context.Context, []backend.RowID) error {
		once.Do(func() {
			close(reading)
			<-finish
		})
		return nil
	}
	s := openStore(t, f, Config{CacheBytes: 1, WatchBytes: 1 << 10})
	eventually(t, "the index is complete", s.index.Complete)
	put(t, s, "a", "first")
	st := s.NewWatchStream()
	defer st.Close()
	id := created(t, st, WatchRequest{Key: []byte("a"), PrevKV: true})
	created(t, st, WatchRequest{Key: []byte("b")})
	put(t, s, "a", "second")
	var r *WatchResponse
	var wg sync.WaitGroup
	wg.Go(func() { r = next(t, st) })
	<-reading
	st.Cancel(id)
	put(t, s, "b", string(make([]byte, 4<<10))) // more than all watches may hold
	close(finish)
	wg.Wait()
	if r.ID != id || len(r.Events) != 1 {
		t.Errorf("got %+v", r)
	}
	if r := next(t, st); r.ID != id || !r.Canceled {
		t.Errorf("got %+v", r)
	}
	if r := next(t, st); len(r.Events) != 1 || string(r.Events[0].Row.Key) != "b" {
		t.Errorf("got %+v", r)
	}
	if n := s.hub.pending.Load(); n != 0 {
		t.Errorf("%d bytes are counted, and nothing waits", n)
	}
}
