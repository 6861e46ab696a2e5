package store

import (
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// loadRows is how many keys are loaded into the index at a time. After a failure it is half as many, because they
	// may have been too many for the database's timeouts. Each success adds one part in loadGrowth of loadRows again.
	loadRows   = 2000
	loadGrowth = 20
	// loadRetry is how long loading waits before it retries after the database failed.
	loadRetry = time.Second
)

// loader fills the index from the database while the store serves requests.
type loader struct {
	s      *Store
	outage loglimit.Outage
}

// start begins to fill the index in its current generation. A loader started before a reset of the index notices the
// reset and stops. If the database must be verified, the verification fills the index.
func (l *loader) start() {
	switch {
	case l.s.verification.needed():
		l.s.verification.begin()
	case !l.s.cfg.DisableIndex:
		l.s.background.start(func() { l.run(l.s.index.Position().Generation) })
	}
}

func (l *loader) run(generation int) {
	s := l.s
	rows := s.cfg.loadRows
	began := time.Now()
	next := index.Span{Open: true}
	for count := 0; ; {
		epoch, rev := s.epoch.Load(), s.Revision()
		found, clock, err := s.backend.Range(backend.Maintenance(s.ctx), backend.RangeQuery{
			Span: next.Backend(), Revision: rev, Limit: rows,
			KeysOnly: true,
		})
		if err == nil && clock.Epoch != epoch {
			err = backend.ErrOtherEpoch // which this process has not noticed yet
		}
		if err == nil {
			err = clock.Check(rev)
		}
		if errors.Is(err, ErrCompacted) { // a compaction came in between: continue at a newer revision
			if err = s.confirm(s.ctx); err == nil {
				continue
			}
		}
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, backend.ErrClosed), errors.Is(err, ErrClosed):
			return
		case err != nil:
			if l.outage.Failed() {
				s.cfg.Logger.Warn("index of keys not loaded yet: reads go to the database", "error", err)
			}
			rows = max(rows/2, 1)
			select {
			case <-time.After(loadRetry):
			case <-s.ctx.Done():
			}
			continue
		}
		if l.outage.Worked() {
			s.cfg.Logger.Info("index of keys is being loaded again")
		}
		if !s.index.Load(generation, found) {
			return // the index was reset
		}
		count += len(found)
		if len(found) < rows {
			if s.index.Finish(generation) {
				s.cfg.Logger.Debug("index of keys loaded", "keys", count, "took", time.Since(began))
				l.finished()
			}
			return
		}
		rows = min(rows+max(s.cfg.loadRows/loadGrowth, 1), s.cfg.loadRows)
		next = next.From(string(found[len(found)-1].Key) + "\x00")
	}
}

// finished reports what the index holds once it is complete.
func (l *loader) finished() {
	if at := l.s.index.Position(); l.s.cfg.Loaded != nil {
		l.s.cfg.Loaded(l.s.ctx, at.Revision, at.Keys)
	}
}
