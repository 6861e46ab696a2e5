package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// TestWatchOnAnotherReplica starts watches on one replica right after a write and a compaction were acknowledged by the
// other.
func TestWatchOnAnotherReplica(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	for n := range 50 {
		rev := put(t, all[0], "k", fmt.Sprint(n))
		if _, err := all[0].Compact(within(t), rev, false); err != nil {
			t.Fatal(err)
		}
		st := all[1].NewWatchStream()
		if err := st.CatchUp(within(t)); err != nil {
			t.Fatal(err)
		}
		st.Watch(WatchRequest{ID: 1, Key: []byte("k")})
		if r := next(t, st); !r.Created || r.Revision != rev {
			t.Fatalf("a watch of the present begins at %d, the put was at %d", r.Revision, rev)
		}
		st.Watch(WatchRequest{ID: 2, Key: []byte("k"), StartRevision: rev - 1})
		if r := next(t, st); !r.Created || r.Canceled {
			t.Fatalf("a watch of the past: %+v", r)
		}
		if r := next(t, st); r.ID != 2 || r.CompactRevision != rev {
			t.Fatalf("a watch below the compaction at %d: %+v", rev, r)
		}
		st.Close()
	}
}

// TestAlarmsOnAnotherReplica reads alarms right after they were raised or cleared on the other.
func TestAlarmsOnAnotherReplica(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	ctx := within(t)
	a := Alarm{Member: 5, Kind: AlarmCorrupt}
	for range 20 {
		if err := all[0].RaiseAlarm(ctx, a); err != nil {
			t.Fatal(err)
		}
		if got, err := all[1].ReadAlarms(ctx); err != nil || len(got) != 1 || got[0] != a {
			t.Fatalf("raised: %v, %v", got, err)
		}
		if was, err := all[0].ClearAlarm(ctx, a); err != nil || !was {
			t.Fatal(was, err)
		}
		if got, err := all[1].ReadAlarms(ctx); err != nil || len(got) != 0 {
			t.Fatalf("cleared: %v, %v", got, err)
		}
	}
	// Without its database nobody can tell.
	if err := all[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].ReadAlarms(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A watch of the past is served though another one beside it, of the same keys, has its history compacted away before
// it could be read.
func TestCatchUpBesideCompacted(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{WindowBytes: 1})
	many(t, s, 20, 1, 10)
	st := s.NewWatchStream()
	defer st.Close()
	late, early := everything(15), everything(5)
	late.ID, early.ID = 1, 2
	st.Watch(late)
	st.Watch(early)
	if _, err := s.Compact(within(t), 10, false); err != nil {
		t.Fatal(err)
	}
	for canceled, last := false, int64(14); !canceled || last < s.Revision(); {
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

// A server that is behind what is published sends nothing to watches that catch up. They ask it again after a pause.
func TestCatchUpFromServerBehind(t *testing.T) {
	f := &behindHistory{Backend: openSQLite(t)}
	log := make(recorder, 100)
	s := openStore(t, f, Config{WindowBytes: 1, Logger: slog.New(log)})
	many(t, s, 5, 1, 10)
	f.behind.Store(true)
	st := s.NewWatchStream()
	defer st.Close()
	created(t, st, everything(2))
	got := make(chan *WatchResponse, 1)
	go func() { got <- next(t, st) }()
	for text := ""; text != "watches cannot catch up yet"; {
		select {
		case r := <-log:
			text = r.Message
		case <-within(t).Done():
			t.Fatal("nobody says that watches cannot catch up")
		}
	}
	f.behind.Store(false)
	if r := <-got; len(r.Events) == 0 || r.Events[0].Row.ModRevision != 2 {
		t.Errorf("got %+v", r)
	}
}

// behindHistory answers, while it is behind, as a server does that has received none of what is asked for.
type behindHistory struct {
	backend.Backend
	behind atomic.Bool
}

func (b *behindHistory) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	if !b.behind.Load() {
		return b.Backend.History(ctx, q)
	}
	clock, err := b.Clock(ctx)
	clock.Revision = q.After
	return backend.History{Clock: clock, Through: q.After}, err
}
