package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// olderStatement is how many rows a statement costs besides those that it reads, and about what it costs to load
	// as many changes.
	olderStatement = 20
	// olderChunk is how many changes one statement loads, and olderBytes bounds their keys.
	olderChunk = 512
	olderBytes = 1 << 20
	// olderRetry is how long the store waits after a failure before it loads changes again.
	olderRetry = 10 * time.Second
)

// older extends the index to older revisions than it knows, once reads there have cost the database as much as that
// takes: after a start, the index only knows the revisions since.
type older struct {
	s *Store

	mu      sync.Mutex
	spent   int64 // in rows
	loading bool
	failed  time.Time // when the last load failed
	tooFar  int64     // the latest revision known to be too far back
}

// walkInMemory returns up to limit rows of the span at v's revision. ok is false if only the database has them.
func (s *Store) walkInMemory(sp index.Span, v view, limit int) (items []*index.Item, more, ok bool) {
	if keys := v.keys(); keys != nil {
		items, more = keys.Walk(sp, limit)
		return items, more, true
	}
	return s.index.WalkOld(v.rev, v.epoch, sp, limit)
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
	unknown := o.s.index.Unknown(v.rev, v.epoch)
	if unknown == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loading || v.rev <= o.tooFar || time.Since(o.failed) < olderRetry {
		return
	}
	if o.spent += int64(rows) + olderStatement; o.spent < unknown {
		return
	}
	o.spent = 0
	o.loading = o.s.background.start(func() {
		err := o.load(v.rev)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.loading = false
		switch {
		case errors.Is(err, errTooFar):
			o.tooFar = max(o.tooFar, v.rev)
		case err != nil:
			o.failed = time.Now()
			o.s.cfg.Logger.Debug("changes were not loaded: reads at older revisions go on reading the database",
				"revision", v.rev, "error", err)
		}
	})
}

var (
	errTooFar = errors.New("the changes since do not fit into memory")
	errGone   = errors.New("a superseded row is gone")
)

// load extends the index to rev.
func (o *older) load(rev int64) error {
	s := o.s
	l := s.index.NewUndoLoad(rev)
	if l == nil {
		return nil
	}
	if !l.Fits() {
		return errTooFar
	}
	for after := rev; after < l.Until; {
		h, err := s.backend.History(s.ctx, backend.HistoryQuery{
			After: after, Until: l.Until, Limit: olderChunk, Bytes: olderBytes, KeysOnly: true, WithPrev: true,
		})
		if err == nil && h.Clock.Epoch != l.Epoch() {
			err = backend.ErrOtherEpoch
		}
		if err == nil {
			err = h.Clock.Check(rev)
		}
		switch {
		case err != nil:
		case h.Through <= after || !l.Add(h.Changes):
			err = errGone
		case !l.Fits():
			err = errTooFar
		}
		if err != nil {
			return fmt.Errorf("load the changes after revision %d: %w", after, err)
		}
		after = h.Through
	}
	s.index.Prepend(l)
	return nil
}
