package watch

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleWatchesGetProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Config{ProgressInterval: time.Second})
		st := newStream(t, m)
		id := created(t, st, Request{Key: []byte("quiet"), ProgressNotify: true})
		created(t, st, Request{Key: []byte("other")}) // requests no progress
		for range 3 {
			rev := m.put("loud", "")
			began := time.Now()
			if r := next(t, st); r.ID != id || len(r.Events) != 0 || r.Canceled || r.Revision != rev {
				t.Fatalf("got %+v", r)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("progress after %v", d)
			}
		}
	})
}

// Progress includes the revision that reads have returned, even if that is a moment ahead of the hub.
func TestProgressFollowsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Config{})
		st := newStream(t, m)
		created(t, st, everything(0))
		m.mu.Lock()
		m.clock.Revision++ // committed and not published yet
		rev := m.clock.Revision
		m.mu.Unlock()
		st.RequestProgress()
		got := make(chan *Response, 1)
		go func() { got <- next(t, st) }()
		if synctest.Wait(); len(got) > 0 {
			t.Fatalf("got %+v", <-got)
		}
		m.Publish(nil, nil, rev, 0)
		if r := <-got; r.ID != -1 || r.Revision != rev {
			t.Errorf("got %+v", r)
		}
	})
}

// A progress request that lost history overtakes is dropped; the next one is answered.
func TestProgressAfterLostHistory(t *testing.T) {
	m := open(t, Config{})
	m.many(10, 1, 0)
	st := newStream(t, m)
	created(t, st, everything(0))
	st.RequestProgress() // while the consumer stands still
	m.Reset(m.lose(5), true)
	if r := next(t, st); !r.Canceled {
		t.Fatalf("got %+v", r)
	}
	created(t, st, everything(0))
	st.RequestProgress()
	if r := next(t, st); r.ID != -1 || r.Revision != 5 {
		t.Errorf("got %+v", r)
	}
}
