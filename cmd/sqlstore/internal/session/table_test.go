package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/session"
	"github.com/sqlstore/sqlstore/internal/auth"
)

var alice = auth.ByPassword("alice", 7)

// A session lives while its user is active, but not for longer than a working day.
func TestEndOfSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := session.NewTable(t.Context())
		key, s := table.Begin(alice)
		other, _ := table.Begin(alice)
		if key == other || len(key) < 26 {
			t.Fatalf("keys %q and %q", key, other)
		}
		begun := time.Now()
		for time.Since(begun)+session.Idle < session.Longest+time.Minute {
			time.Sleep(session.Idle - time.Minute)
			if table.Find(key, true) != s || s.Ended() || s.Identity != alice {
				t.Fatalf("ended after %v", time.Since(begun))
			}
		}
		if table.Find(other, false) != nil {
			t.Error("idle, and lives")
		}
		time.Sleep(session.Longest - time.Since(begun))
		synctest.Wait()
		if !s.Ended() || table.Find(key, true) != nil {
			t.Error("lives too long")
		}
	})
}

// What a page does by itself does not keep a session alive.
func TestInactive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := session.NewTable(t.Context())
		key, s := table.Begin(alice)
		time.Sleep(session.Idle - time.Second)
		if table.Find(key, false) != s {
			t.Fatal("ended too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !s.Ended() || table.Find(key, true) != nil {
			t.Error("lives without its user")
		}
	})
}

func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	table := session.NewTable(ctx)
	key, s := table.Begin(alice)
	kept, last := table.Begin(alice)
	table.End(s)
	table.End(s)
	if !s.Ended() || table.Find(key, true) != nil || last.Ended() || table.Find(kept, true) != last {
		t.Error("not the right session ended")
	}
	if table.Find("", true) != nil {
		t.Error("no key finds a session")
	}
	stop()
	<-last.Context().Done()
	if _, late := table.Begin(alice); !late.Ended() {
		t.Error("a session began after the end of the table")
	}
}

// Who logs in again and again logs out nobody else, and memory is bounded.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := session.NewTable(t.Context())
		first, _ := table.Begin(alice)
		time.Sleep(time.Second)
		var mine []string
		for range session.MostOfUser + 3 {
			key, _ := table.Begin(auth.ByPassword("bob", 7))
			mine = append(mine, key)
			time.Sleep(time.Second)
		}
		for i, key := range mine {
			if (table.Find(key, false) != nil) != (i >= 3) {
				t.Errorf("session %d of %d is not as it should be", i, len(mine))
			}
		}
		for i := range session.Most - session.MostOfUser - 1 {
			table.Begin(auth.ByPassword(fmt.Sprint(i), 7))
		}
		if table.Find(first, false) == nil {
			t.Error("ended although there was room")
		}
		table.Begin(auth.ByPassword("last", 7))
		if table.Find(first, false) != nil || table.Find(mine[3], false) == nil {
			t.Error("not the oldest session ended")
		}
	})
}
