package watch

import (
	"testing"
	"testing/synctest"
	"time"
)

// A client that receives nothing is behind until it has received everything.
func TestLagOfAClientThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Config{})
		st := newStream(t, m)
		created(t, st, everything(0))
		if l := m.Lag(0); l != (Lag{}) {
			t.Errorf("before any write: %+v", l)
		}
		m.put("a", "")
		if l := m.Lag(0); l.Watches != 0 { // the event may have just arrived
			t.Errorf("the first sample: %+v", l)
		}
		m.put("b", "")
		time.Sleep(time.Minute)
		if l := m.Lag(0); l != (Lag{Watches: 1, Longest: time.Minute}) {
			t.Errorf("the second sample: %+v, want one watch", l)
		}
		if l := m.Lag(time.Hour); l != (Lag{Longest: time.Minute}) {
			t.Errorf("want no watch an hour behind: %+v", l)
		}
		next(t, st)
		m.put("c", "")
		if l := m.Lag(0); l.Watches != 0 { // it makes progress
			t.Errorf("after the client receives something: %+v", l)
		}
		next(t, st)
		if l := m.Lag(0); l != (Lag{}) {
			t.Errorf("after the client receives everything: %+v", l)
		}
	})
}

// A watch that catches up is behind until it is synced or ends.
func TestLagOfAWatchThatCatchesUp(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *memory, *Stream){
		"it gets there": func(t *testing.T, m *memory, st *Stream) {
			t.Helper()
			expectRevisions(t, st, 2, m.revision(), 1)
		},
		"it is canceled": func(_ *testing.T, _ *memory, st *Stream) { st.Cancel(0) },
		"it is closed":   func(_ *testing.T, _ *memory, st *Stream) { st.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := open(t, Config{WindowBytes: 1, WatcherBytes: 1000})
				m.many(100, 1, 20)
				st := newStream(t, m)
				created(t, st, everything(2))
				if synctest.Wait(); m.Stats().Pending == 0 {
					t.Fatal("no history is read")
				}
				time.Sleep(time.Minute)
				// the client has not received what was read
				want := Lag{Watches: 1, Longest: time.Minute, Revisions: 100}
				if l := m.Lag(0); l != want {
					t.Errorf("%+v, want %+v", l, want)
				}
				if n := m.Stats().Lag; n != 100 {
					t.Errorf("%d revisions behind", n)
				}
				end(t, m, st)
				if synctest.Wait(); m.Lag(0) != (Lag{}) {
					t.Errorf("still behind by %+v", m.Lag(0))
				}
			})
		})
	}
}
