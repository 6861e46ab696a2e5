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

// A watch with CaughtUp gets a progress response after the last event from before it began.
func TestCaughtUp(t *testing.T) {
	for name, cfg := range map[string]Config{"window": {}, "database": {WindowBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := open(t, cfg)
				m.many(3000, 10, 0)
				began := m.revision()
				for what, w := range map[string]struct {
					Request

					events int
				}{
					"all":     {everything(1), 3000},
					"current": {everything(began + 1), 0},
					"now":     {everything(0), 0},
					"none":    {Request{Key: []byte("none"), StartRevision: 1}, 0},
				} {
					st := newStream(t, m)
					w.CaughtUp = true
					id := created(t, st, w.Request)
					events, last := 0, int64(0)
					r := next(t, st)
					for ; len(r.Events) > 0; r = next(t, st) {
						events += len(r.Events)
						last = r.Events[len(r.Events)-1].Row.ModRevision
					}
					if r.ID != id || r.Canceled || events != w.events || r.Revision != max(began, last) {
						t.Errorf("%s: after %d events, the last of %d, got %+v", what, events, last, r)
					}
				}
				st := newStream(t, m)
				future := everything(began + 3)
				future.CaughtUp = true
				created(t, st, future)
				m.many(3, 1, 0)
				if r := next(t, st); len(r.Events) == 0 {
					t.Errorf("a watch of the future got %+v", r)
				}
			})
		})
	}
}
