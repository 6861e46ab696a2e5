package backup

import (
	"context"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// A full backup works for at least workPart, and then pauses pauseFactor times as long, so that writes are hardly
// affected. It works in short parts, because a write that comes meanwhile waits for one. It pauses less after a while,
// because what is compacted meanwhile is deleted only afterwards.
const (
	workPart    = 200 * time.Microsecond
	workRows    = 16 // read at once
	pauseFactor = 24
	hurryPart   = 20 * time.Minute
)

// pauseAfter returns how long to pause after some work of a full backup that has run for elapsed so far.
func pauseAfter(worked, elapsed time.Duration) time.Duration {
	worked = min(worked, 1000*workPart)
	switch {
	case elapsed < hurryPart:
		return pauseFactor * worked
	case elapsed < 2*hurryPart:
		return worked
	}
	return 0
}

// exported is the full backup of an export, which becomes a chain of its own.
func exported(ctx context.Context, x *store.Export, version string, at time.Time) *full {
	stored := x.Auth.Stored()
	f := &full{
		header: Header{
			Format: format, Version: version, ClusterID: strconv.FormatUint(x.Settings.ClusterID, 16), Epoch: x.Epoch,
			Revision: x.Revision, Compacted: x.Compacted, At: at,
		},
		chain: chainName(at, x.Settings.ClusterID), auth: &stored,
	}
	for _, l := range x.Leases {
		f.leases = append(f.leases, backend.Lease{ID: l.ID, TTL: l.Granted})
	}
	f.rows = func(ctx context.Context, each func(*backend.Row) error) error {
		x.Chunk = workRows
		defer func() { x.Chunk = 0 }()
		began := time.Now()
		first := began
		return x.Rows(ctx, func(r backend.Row) error {
			if err := each(&r); err != nil {
				return err
			}
			worked := time.Since(began)
			if worked < workPart {
				return nil
			}
			defer func() { began = time.Now() }()
			return pause(ctx, pauseAfter(worked, time.Since(first)))
		})
	}
	return f
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
