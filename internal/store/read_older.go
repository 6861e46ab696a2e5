package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// olderStatement is how many rows a statement costs besides those that it reads, and about what it costs to load
	// as many changes.
	olderStatement = 20
	// olderChunk is how many changes one statement loads, and olderBytes bounds their keys.
	olderChunk = 8192
	olderBytes = 1 << 20
	// olderRetry is how long the store waits after a failure before it loads changes again.
	olderRetry = 10 * time.Second
)

// older extends a log of the index to older revisions than it reaches back to, once reads there have cost the database
// as much as that takes: after a start, the index only knows the revisions since.
type older struct {
	s   *Store
	log index.Log

	mu      sync.Mutex
	spent   int64 // in rows
	loading bool
	failed  time.Time // when the last load failed
	outage  loglimit.Outage
	tooFar  int64 // the latest revision known to be too far back
	epoch   int64 // to which tooFar belongs
}

// walkInMemory returns up to limit rows of the span at v's revision. ok is false if only the database has them, or if
// ctx has ended.
func (s *Store) walkInMemory(
	ctx context.Context, sp index.Span, v view, limit int,
) (items []*index.Item, more, ok bool) {
	if keys := v.keys(); keys != nil {
		items, more = keys.Walk(sp, limit)
		return items, more, true
	}
	return s.index.WalkOld(ctx, v.rev, v.epoch, sp, limit)
}

// countInMemory counts the keys of the span at v's revision. ok is false if only the database can.
func (s *Store) countInMemory(sp index.Span, v view) (n int64, ok bool) {
	if keys := v.keys(); keys != nil {
		return keys.Count(sp), true
	}
	return s.index.CountOld(v.rev, v.epoch, sp)
}

// exceeds reports whether the index knows more than n keys of the span at v's revision.
func (s *Store) exceeds(sp index.Span, v view, n int) bool {
	if sp.Single {
		return false
	}
	if keys := v.keys(); keys != nil {
		return keys.Exceeds(sp, n)
	}
	count, ok := s.index.CountOld(v.rev, v.epoch, sp)
	return ok && count > int64(n)
}

// long reports whether a read scans many keys in memory.
func (s *Store) long(req *RangeRequest, sp index.Span, v view) bool {
	return !req.short() && s.exceeds(sp, v, longRead)
}

// read notes that v read so many rows from the database, and extends the index if that has become worth it.
func (o *older) read(v view, rows int) {
	unknown := o.s.index.Unknown(o.log, v.rev, v.epoch)
	if unknown == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch != v.epoch {
		o.epoch, o.tooFar = v.epoch, 0
	}
	if o.loading || v.rev <= o.tooFar || time.Since(o.failed) < olderRetry {
		return
	}
	if o.spent += int64(rows) + olderStatement; o.spent < unknown {
		return
	}
	o.spent = 0
	further := max(v.rev-unknown, o.s.Compacted(), o.tooFar+1, 1)
	o.loading = o.s.background.start(func() {
		tooFar, err := o.load(v.rev)
		if further < v.rev && o.s.index.Unknown(o.log, v.rev, v.epoch) == 0 && err == nil {
			// Reads at revisions before v.rev are to come, and would load the changes little by little.
			var failed error
			if tooFar, failed = o.load(further); failed != nil {
				o.s.cfg.Logger.Debug("further changes were not loaded", "revision", further, "error", failed)
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.loading = false
		if o.epoch == v.epoch {
			o.tooFar = max(o.tooFar, tooFar)
		}
		switch {
		case errors.Is(err, ErrCompacted), errors.Is(err, backend.ErrOtherEpoch), o.s.ctx.Err() != nil:
		case err != nil:
			o.failed = time.Now()
			if o.outage.Failed() {
				o.s.cfg.Logger.Warn("changes were not loaded: reads at older revisions still read the database, which "+
					"is slow", "log", o.log.String(), "revision", v.rev, "error", err)
			}
		case o.outage.Worked():
			o.s.cfg.Logger.Info("changes are loaded again")
		}
	})
}

var errNoProgress = errors.New("the database returned no changes")

// load extends the log to rev. If the changes do not fit, or a superseded row among them is missing, it returns a
// revision that is known to be too far back, otherwise 0.
func (o *older) load(rev int64) (tooFar int64, err error) {
	s := o.s
	l := s.index.NewLoad(o.log, rev)
	if l == nil {
		return 0, nil
	}
	began := time.Now()
	for after := rev; ; {
		switch {
		case !l.Fits():
			return rev, nil
		case after >= l.Until:
			if s.index.Prepend(l) {
				s.cfg.Logger.Debug("changes loaded for reads at older revisions", "since", rev, "until", after,
					"took", time.Since(began))
			}
			return 0, nil
		}
		h, err := s.backend.History(backend.Maintenance(s.ctx), backend.HistoryQuery{
			After: after, Until: l.Until, Limit: olderChunk, Bytes: olderBytes, KeysOnly: true,
			WithPrev: l.WithPrev(),
		})
		if err == nil && h.Clock.Epoch != l.Epoch() {
			err = backend.ErrOtherEpoch
		}
		if err == nil {
			err = h.Clock.Check(rev)
		}
		excessive, ok := false, false
		if err == nil {
			ok, excessive = l.Add(h.Changes)
		}
		switch {
		case err == nil && h.Through <= after:
			err = errNoProgress
		case err == nil && !ok, excessive: // so it is for every revision before
			return after, nil
		}
		if err != nil {
			return 0, fmt.Errorf("load the changes after revision %d: %w", after, err)
		}
		after = h.Through
	}
}
