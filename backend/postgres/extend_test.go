package postgres

import (
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// TestExtensionInParts extends more leases than one transaction may: none expires before its extension, and a member
// that takes over in the middle starts again.
func TestExtensionInParts(t *testing.T) {
	t.Parallel()
	const leases, hour = 2*extensionPart + 3, time.Hour
	dsn := database(t)
	a, b := openTest(t, Config{DSN: dsn}), openTest(t, Config{DSN: dsn})
	end := func() {
		t.Helper()
		admin(t, dsn, "UPDATE leases SET due_at = '-infinity', expires_at = clock_timestamp() - interval '1 minute'")
	}
	admin(t, dsn, "INSERT INTO leases (id, ttl, expires_at, due_at) SELECT i, 3600, now(), now() "+
		"FROM generate_series(1, 10003) AS i")
	admin(t, dsn, "UPDATE leases SET id = -9223372036854775808 WHERE id = 1")
	admin(t, dsn, "UPDATE leases SET id = 9223372036854775807 WHERE id = 10003")
	const first, last = -1 << 63, 1<<63 - 1
	end()
	if ids, err := a.ExpiredLeases(t.Context(), 10); err != nil || len(ids) != 10 {
		t.Fatalf("ended: %v, %v", ids, err)
	}
	beat := func(b *Backend, id uint64, acquired, extending bool) {
		t.Helper()
		ms, err := b.Heartbeat(t.Context(), backend.Member{ID: id}, time.Nanosecond, hour)
		if err != nil || ms.Acquired != acquired || ms.Extending != extending {
			t.Fatalf("heartbeat of %d: %+v, %v", id, ms, err)
		}
	}
	wantAlive := func() {
		t.Helper()
		if ids, err := b.ExpiredLeases(t.Context(), 10); err != nil || len(ids) != 0 {
			t.Errorf("ended in the middle: %v, %v", ids, err)
		}
		states, _, err := b.LeaseStates(t.Context(), nil)
		if err != nil || len(states) != leases {
			t.Fatalf("%d leases, %v", len(states), err)
		}
		tx := begin(t, b, backend.Needs{Leases: []int64{first, 7000, last}})
		states = append(states, tx.Loaded().Leases...)
		tx.Rollback()
		for _, s := range states {
			if s.Remaining < hour-time.Minute || s.Remaining > hour {
				t.Fatalf("in the middle %+v", s)
			}
		}
		if renewed, err := b.RenewLeases(t.Context(), []int64{first, last}); err != nil || len(renewed) != 2 {
			t.Errorf("renewed in the middle %v, %v", renewed, err)
		}
	}
	extend := func(b *Backend, want bool) {
		t.Helper()
		if done, err := b.ExtendLeases(t.Context()); err != nil || done != want {
			t.Fatalf("extended: %t, %v; want %t", done, err, want)
		}
		wantAlive()
	}
	beat(a, 1, true, true)
	wantAlive()
	extend(a, false)
	end() // the leases that a has extended expire again, while no client could renew them
	beat(b, 2, true, true)
	extend(b, false)
	beat(b, 2, false, true)
	extend(a, true)
	beat(b, 2, false, false)
	extend(b, true)
	end()
	if ids, err := a.ExpiredLeases(t.Context(), leases+1); err != nil || len(ids) != leases {
		t.Errorf("ended: %d, %v", len(ids), err)
	}
}
