package backendtest

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// testImport covers the mark of an import, which a restart keeps.
func testImport(f *fixture) {
	ctx := context.Background()
	check := func(want backend.Import) {
		f.Helper()
		if got, err := f.b.Import(ctx); err != nil || got != want {
			f.Errorf("import %+v, %v; want %+v", got, err, want)
		}
	}
	var was backend.Import
	set := func(next backend.Import, clusterID uint64) {
		f.Helper()
		f.ok(f.b.SetImport(ctx, was, next, clusterID))
		was = next
		check(next)
	}
	check(backend.Import{})
	before, err := f.b.Settings(ctx)
	if err != nil {
		f.Fatal(err)
	}
	set(backend.Import{Source: math.MinInt64}, 0)
	set(backend.Import{Source: 7, Gaps: 1 << 40}, 0)
	f.commit([]op{put("a", "1")})
	check(backend.Import{Source: 7, Gaps: 1 << 40})
	cluster := before.ClusterID
	if f.hooks.Reopen != nil {
		f.b = f.hooks.Reopen(f.T, f.b)
		check(backend.Import{Source: 7, Gaps: 1 << 40})
		f.checkCluster(cluster)
		cluster = math.MaxUint64 - 1
		set(backend.Import{Gaps: 1 << 40}, cluster)
		f.b = f.hooks.Reopen(f.T, f.b)
	}
	f.checkCluster(cluster)
	set(backend.Import{}, 0)
}

// testImportTakenOver covers what tells a command that another one has taken over its import.
func testImportTakenOver(f *fixture) {
	ctx := context.Background()
	first, second := backend.Import{Source: 7, Gaps: 3, Holder: 1}, backend.Import{Source: 7, Gaps: 3, Holder: 2}
	before, err := f.b.Settings(ctx)
	f.ok(err)
	f.ok(f.b.SetImport(ctx, backend.Import{}, first, 0))
	tx := f.begin(backend.Needs{Import: true})
	if got := tx.Loaded().Import; got != first {
		f.Errorf("a transaction finds the import %+v, want %+v", got, first)
	}
	// Another command does not take over in the middle of a transaction.
	taken := make(chan error, 1)
	go func() { taken <- f.b.SetImport(ctx, first, second, 0) }()
	if got, err := f.b.Import(ctx); err != nil || got != first {
		f.Errorf("import %+v, %v during a transaction that has found %+v", got, err, first)
	}
	f.ok(tx.Commit(ctx, &backend.Effects{Granted: []backend.Lease{{ID: 1, TTL: time.Hour}}, Revision: 1, Batch: 1}))
	f.ok(<-taken)
	tx = f.begin(backend.Needs{Import: true})
	if got := tx.Loaded().Import; got != second {
		f.Errorf("a transaction finds the import %+v, want %+v", got, second)
	}
	tx.Rollback()
	f.wantErr("set the remaining times of an import that was taken over",
		f.b.SetRemaining(ctx, first, map[int64]time.Duration{1: time.Minute}), backend.ErrTakenOver)
	f.wantErr("forget them", f.b.SetRemaining(ctx, first, nil), backend.ErrTakenOver)
	if left, err := f.b.Remaining(ctx); err != nil || left[1] != 0 && left[1] <= time.Minute {
		f.Errorf("remaining times %v, %v", left, err)
	}
	f.wantErr("end an import that was taken over", f.b.SetImport(ctx, first, backend.Import{}, 9), backend.ErrTakenOver)
	if got, err := f.b.Import(ctx); err != nil || got != second {
		f.Errorf("import %+v, %v; want %+v", got, err, second)
	}
	f.checkCluster(before.ClusterID)
}

func (f *fixture) checkCluster(want uint64) {
	f.Helper()
	if s, err := f.b.Settings(context.Background()); err != nil || s.ClusterID != want {
		f.Errorf("settings %+v, %v; want the cluster %x", s, err, want)
	}
}

// testRemaining covers the remaining time of imported leases. Time does not pass until a server opens the database.
func testRemaining(f *fixture) {
	ctx := context.Background()
	f.apply(&backend.Effects{Granted: []backend.Lease{
		{ID: -1, TTL: time.Hour}, {ID: 1, TTL: time.Hour}, {ID: 2, TTL: 9_000_000_000 * time.Second},
	}})
	f.ok(f.b.SetRemaining(ctx, backend.Import{}, map[int64]time.Duration{-1: time.Minute}))
	want := map[int64]time.Duration{-1: 0, 1: 100 * time.Second, 2: 8_000_000_000 * time.Second}
	f.ok(f.b.SetRemaining(ctx, backend.Import{}, want))
	if f.hooks.Reopen != nil {
		f.b = f.hooks.Reopen(f.T, f.b)
	}
	got, err := f.b.Remaining(ctx)
	f.ok(err)
	if !maps.Equal(got, want) {
		f.Errorf("remaining times %v, want %v", got, want)
	}
	shared, ok := f.b.(backend.Shared)
	if !ok {
		f.ok(f.b.SetRemaining(ctx, backend.Import{}, nil))
		if got, err := f.b.Remaining(ctx); err != nil || len(got) > 0 {
			f.Errorf("remaining times %v, %v; want none", got, err)
		}
		return
	}
	// The heartbeat of the first server lets them go on. The next one finds that nobody could renew.
	full := map[int64]time.Duration{-1: time.Hour, 1: time.Hour, 2: 9_000_000_000 * time.Second}
	for _, ttls := range []map[int64]time.Duration{want, full} {
		_, err = shared.Heartbeat(ctx, backend.Member{ID: 7}, time.Hour, time.Nanosecond)
		f.ok(err)
		for done := false; !done; {
			done, err = shared.ExtendLeases(ctx)
			f.ok(err)
		}
		states, _, err := shared.LeaseStates(ctx, nil)
		f.ok(err)
		if len(states) != len(ttls) {
			f.Errorf("leases %+v", states)
		}
		for _, s := range states {
			if s.Remaining > ttls[s.ID] || s.Remaining < ttls[s.ID]-time.Minute {
				f.Errorf("lease %+v, want %v remaining", s, ttls[s.ID])
			}
		}
	}
}
