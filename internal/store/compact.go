package store

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// purgeRetry is how long a physical compaction waits before it checks again whether an export or a stream still
	// reads.
	purgeRetry = 50 * time.Millisecond
	// purgeBlock is about how long one of its steps blocks writes, where steps do.
	purgeBlock = time.Millisecond
	// purgeFirst is how many rows its first step deletes.
	purgeFirst = 64
	// purgeFailures is how many steps may fail without progress in between: one whose rows somebody has locked does.
	purgeFailures = 5
)

// Compact makes revision the oldest one that can be read, and returns the store's revision. If physical is set, it
// waits until the rows below are deleted, which in turn waits for their readers. Errors: [ErrCompacted],
// [ErrFutureRevision], those of the sequencer.
func (s *Store) Compact(ctx context.Context, revision int64, physical bool) (int64, error) {
	rev, err := s.compact(ctx, revision)
	if err == nil && physical {
		_, err = s.purgeAll(ctx, math.MaxInt64)
	}
	return rev, err
}

// purgeAll deletes the rows below the compacted revision. It waits for their readers. done is false if they blocked all
// progress for as long as timeout.
func (s *Store) purgeAll(ctx context.Context, timeout time.Duration) (done bool, err error) {
	pace := purgePace{rows: purgeFirst, revision: s.Revision()}
	failures := 0
	for waited := time.Duration(0); waited < timeout; {
		began := time.Now()
		res, err := s.PurgeStep(ctx, pace.rows)
		pause := purgeRetry
		switch {
		case err != nil:
			failures++
			waited += time.Since(began)
			retry := errors.Is(err, ErrUnavailable) && !errors.Is(err, backend.ErrCorrupt)
			if !retry || failures == purgeFailures || waited >= timeout {
				return false, err
			}
			pace.rows = max(pace.rows/2, 1)
		case res.Done:
			return true, nil
		case res == (backend.PurgeResult{}):
			waited += purgeRetry
		default:
			waited, failures, pause = 0, 0, pace.adapt(&res, s.Revision())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}

// purgePace is the pace of a physical compaction. It is faster than that of the compactor, because somebody waits. But
// a write has to wait for the step in progress, and for the disk to absorb what the steps since the last write have
// left in the log.
type purgePace struct {
	rows     int   // that the next step deletes
	revision int64 // of the store, after the last step
}

// adapt adapts the pace to a step after which the store is at a revision. It returns the pause after the step: as long
// as the step blocked writes, if others wrote meanwhile.
func (p *purgePace) adapt(res *backend.PurgeResult, revision int64) (pause time.Duration) {
	if revision != p.revision {
		p.revision, pause = revision, res.Blocked
	}
	if res.Examined > 0 {
		ideal := float64(readChunk)
		if res.Blocked > 0 {
			ideal = float64(res.Examined) * float64(purgeBlock) / float64(res.Blocked)
		}
		p.rows = int(min(max(ideal, float64(p.rows)/2, 1), 2*float64(p.rows), readChunk))
	}
	return pause
}

// compact commits a compaction.
func (s *Store) compact(ctx context.Context, revision int64) (rev int64, err error) {
	return s.seq.do(ctx, &compactOperation{revision})
}

// PurgeStep deletes up to rows superseded rows below the compacted revision, except for those still being read. The
// caller paces the steps. A zero result means that everything left to delete is still being read or not verified yet,
// or that another step is running.
func (s *Store) PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error) {
	if !s.purging.TryLock() {
		return backend.PurgeResult{}, nil // another step is running
	}
	defer s.purging.Unlock()
	compacted := s.Compacted()
	if compacted == 0 {
		return backend.PurgeResult{Done: true}, nil
	}
	began := time.Now()
	res, err := s.backend.Purge(ctx, rows, s.pins.until(compacted, s.cfg.Now()))
	if o := s.cfg.Observer; o != nil && err == nil && res != (backend.PurgeResult{}) {
		o.Purged(time.Since(began), res)
	}
	return res, err
}

// compactOperation moves the compacted revision.
type compactOperation struct{ revision int64 }

func (o *compactOperation) size() int64          { return 64 }
func (o *compactOperation) needs(*backend.Needs) {}

func (o *compactOperation) evaluate(e *evaluator) error {
	if err := e.auth.IsAdmin(e.caller); err != nil {
		return err
	}
	if err := e.intact(); err != nil {
		return err
	}
	compacted := e.effects.Compacted // by the batch
	if compacted == 0 {
		compacted = e.oldest
	}
	switch {
	case o.revision <= index.EtcdCompacted(compacted):
		return ErrCompacted
	case o.revision > e.rev:
		return ErrFutureRevision
	case o.revision == 0:
		e.effects.Compacted = index.CompactedAtZero
	default:
		e.effects.Compacted = o.revision
	}
	return nil
}
