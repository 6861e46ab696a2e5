package store

import (
	"errors"
	"fmt"
	"testing"
)

// TestWatchOnAnotherReplica starts watches on one replica right after the other has acknowledged a write and a
// compaction.
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
			t.Fatalf("a watch of the present starts at %d, want the put's revision %d", r.Revision, rev)
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

// TestAlarmsOnAnotherReplica reads alarms on one replica right after the other has raised or cleared them.
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
	// A closed replica cannot read them.
	if err := all[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].ReadAlarms(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
