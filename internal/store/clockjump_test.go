package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// jumping is a database whose clock jumps ahead by an hour between a heartbeat and a query, once and on demand, as
// after a failover to a server whose clock is ahead.
type jumping struct {
	backend.Shared
	t   *testing.T
	dsn string

	mu           sync.Mutex
	onQuery      chan struct{} // closed by the query that jumps; nil: none jumps
	onRenewal    func()        // runs before the renewal that jumps
	queriedAfter chan struct{} // closed by the next query
}

func (b *jumping) jump() { stepClock(b.t, b.dsn, "1 hour") }

// stepClock changes the times in the database as if its clock had been stepped ahead by an interval.
func stepClock(t *testing.T, dsn, interval string) {
	t.Helper()
	execute(t, dsn, "WITH l AS (UPDATE leases SET due_at = '-infinity', expires_at = expires_at - $1::interval), "+
		"m AS (UPDATE members SET seen_at = seen_at - $1::interval) "+
		"UPDATE maintenance SET heard_at = heard_at - $1::interval", interval)
}

func (b *jumping) ExpiredLeases(ctx context.Context, limit int) ([]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.onQuery != nil:
		close(b.onQuery)
		b.onQuery, b.queriedAfter = nil, make(chan struct{})
		b.jump()
	case b.queriedAfter != nil:
		close(b.queriedAfter)
		b.queriedAfter = nil
	}
	return b.Shared.ExpiredLeases(ctx, limit)
}

func (b *jumping) RenewLeases(ctx context.Context, ids []int64) ([]backend.Lease, error) {
	b.mu.Lock()
	on := b.onRenewal
	b.onRenewal = nil
	b.mu.Unlock()
	if on != nil {
		on()
		b.jump()
	}
	return b.Shared.RenewLeases(ctx, ids)
}

// A lease survives a forward jump of the database's clock since the last heartbeat: a store that finds the lease
// expired waits for the next heartbeat, which detects the jump.
func TestLeaseOutlivesAJumpOfTheClock(t *testing.T) {
	setup := func(t *testing.T) (*Store, *jumping) {
		dsn := pgserver.Database(t)
		b := &jumping{Shared: openSharedOn(t, 1, dsn)[0].(backend.Shared), t: t, dsn: dsn}
		s := openStore(t, b, Config{})
		grant(t, s, 7, 1000, "k")
		return s, b
	}
	lives := func(t *testing.T, s *Store) {
		t.Helper()
		l, _, err := s.LeaseTimeToLive(within(t), 7, false)
		if err != nil || l.Remaining < 500*time.Second || s.LeaseStats().Expired != 0 || get(t, s, "k", 0) == nil {
			t.Errorf("lease %+v, %v; its key is %v, %d leases expired", l, err, get(t, s, "k", 0),
				s.LeaseStats().Expired)
		}
	}
	t.Run("look", func(t *testing.T) {
		s, b := setup(t)
		jumps := make(chan struct{})
		b.mu.Lock()
		b.onQuery = jumps
		b.mu.Unlock()
		<-jumps
		eventually(t, "the query that jumps and the next one finish", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.queriedAfter == nil
		})
		lives(t, s)
	})
	t.Run("renewal", func(t *testing.T) {
		s, b := setup(t)
		b.mu.Lock()
		b.onRenewal = func() {
			if err := s.RefreshMembers(within(t)); err != nil {
				t.Error(err)
			}
		}
		b.mu.Unlock()
		if ttl, err := s.LeaseRenew(within(t), 7); err != nil || ttl != 1000 {
			t.Errorf("renewed for %d s, %v", ttl, err)
		}
		lives(t, s)
	})
}

// A step of the clock during a heartbeat that has already read it ends no lease.
func TestClockIsSteppedDuringAHeartbeat(t *testing.T) {
	dsn := pgserver.Database(t)
	s := openStore(t, openSharedOn(t, 1, dsn)[0], Config{})
	grant(t, s, 7, 1000, "k")
	// The trigger steps the clock once, when the heartbeat writes its member.
	for _, statement := range []string{
		"CREATE TABLE steps (n integer)",
		`CREATE FUNCTION step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			DELETE FROM steps;
			IF FOUND THEN
				UPDATE leases SET due_at = '-infinity', expires_at = expires_at - interval '1 hour';
				UPDATE maintenance SET heard_at = heard_at - interval '1 hour';
			END IF;
			RETURN NEW;
		END $$`,
		"CREATE TRIGGER step BEFORE INSERT OR UPDATE ON members FOR EACH ROW EXECUTE FUNCTION step()",
		"INSERT INTO steps VALUES (1)",
	} {
		execute(t, dsn, statement)
	}
	if err := s.RefreshMembers(within(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease gets its time again", func() bool {
		l, _, err := s.LeaseTimeToLive(within(t), 7, false)
		if err != nil {
			t.Fatalf("the lease ended: %v", err)
		}
		return l.Remaining > 500*time.Second
	})
}

// After the database's clock was stepped back, leases end on time, and a dead replica does not keep the maintenance.
func TestClockIsSteppedBack(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	s := openStore(t, openSharedOn(t, 1, dsn)[0], Config{})
	grant(t, s, 7, 2, "k")
	grant(t, s, 8, 1000, "kept")
	execute(t, dsn, "WITH m AS (INSERT INTO members (id, name, client_urls, seen_at) "+
		"VALUES (5, 'dead', '{}', clock_timestamp())) UPDATE maintenance SET holder = 5")
	stepClock(t, dsn, "-1 hour")
	eventually(t, "the lease ends", func() bool { return get(t, s, "k", 0) == nil })
	// On a busy machine, the first lease may have ended before the step.
	eventually(t, "the other lease gets its time again", func() bool {
		l, _, err := s.LeaseTimeToLive(within(t), 8, false)
		if err != nil {
			t.Fatalf("the other lease ended: %v", err)
		}
		return l.Remaining <= 1000*time.Second && l.Remaining > 500*time.Second
	})
}
