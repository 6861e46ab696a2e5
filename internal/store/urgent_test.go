package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestWritesBesideHangingReads has writes read the database's size and a value that is not in memory, while hung
// statements occupy all connections for reads. The holder of the clock does not wait for them.
func TestWritesBesideHangingReads(t *testing.T) {
	dsn := pgserver.Database(t)
	both := openSharedOn(t, 2, dsn)
	put(t, openStore(t, both[0], Config{}), "k", "v")
	s := openStore(t, both[1], Config{QuotaBytes: 1 << 40}) // its index has no values
	eventually(t, "the index is complete", func() bool { return complete(s) })
	unlock := pgserver.LockTable(t, dsn, "leases")
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer unlock()
	defer leave()
	for range 20 {
		wg.Go(func() { _, _, _ = both[1].(backend.Shared).LeaseStates(ctx, []int64{1}) })
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	eventually(t, "reads hang", func() bool {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
			"AND wait_event_type = 'Lock' AND query LIKE '%ORDER BY l.id'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 2 // of six connections
	})
	put(t, s, "other", "")
	res, err := s.Put(within(t), &PutRequest{Key: []byte("k"), Value: []byte("w"), PrevKV: true})
	if err != nil || res.Prev == nil || string(res.Prev.Value) != "v" {
		t.Errorf("put replaced %+v, %v", res, err)
	}
}

// alarming is a backend that counts the alarm queries that may have to wait for reads.
type alarming struct {
	backend.Shared
	waiting atomic.Int64
}

func (b *alarming) Alarms(ctx context.Context) ([]backend.Alarm, error) {
	if !backend.IsUrgent(ctx) {
		b.waiting.Add(1)
	}
	return b.Shared.Alarms(ctx)
}

// TestAlarmsAreUrgent has a replica learn of another replica's alarm. Until it does, its writes and publications wait.
func TestAlarmsAreUrgent(t *testing.T) {
	both := openShared(t, 2)
	back := &alarming{Shared: both[1].(backend.Shared)}
	other, s := openStore(t, both[0], Config{}), openStore(t, back, Config{})
	before, alarm := back.waiting.Load(), Alarm{Member: 1, Kind: 99}
	if err := other.RaiseAlarm(within(t), alarm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other replica's alarm arrives", func() bool { return slices.Contains(s.Alarms(), alarm) })
	if n := back.waiting.Load() - before; n > 0 {
		t.Errorf("%d alarm queries may have to wait for reads", n)
	}
}
