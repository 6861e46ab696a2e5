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
	// verifyRetry is how long to wait before a corrupt database is verified again: somebody may have rebuilt its
	// indexes.
	verifyRetry = time.Minute
	// verifyWait bounds how long a read waits for a verification. It is as long as other waits for the database.
	verifyWait = 7 * time.Second
)

// errStale ends a verification that can no longer fill the index.
var errStale = errors.New("the index was reset")

var errUnverified = fmt.Errorf("%w: its server has data_checksums=off, and its indexes are not verified yet; try again",
	backend.ErrUnavailable)

// verification holds back reads of a database whose server does not notice damage to its files until its rows and
// indexes are verified. It fills the index in memory from one scan of the table, so that current reads rely on nothing
// unverified. All other reads wait until the database's indexes are verified, and fail while it is corrupt. Each server
// is verified, and again after its restart.
//
// Reads of rows by their ids and of new revisions do not wait: they notice a missing row themselves.
type verification struct {
	s  *Store
	db backend.Verifying // nil if the backend is not of that kind

	first    chan struct{} // closed with the first result, by open if none is needed, or by close
	released sync.Once     // closes first
	closed   sync.Once     // closes closing
	closing  chan struct{} // closed by Store.Close: all waits end
	mu       sync.Mutex
	running  bool
	done     bool           // there is a result
	server   backend.Server // that the result is about
	err      error          // the result
	changed  chan struct{}  // closed with the next result
	wake     chan struct{}  // capacity 1: ends the pause before the next attempt
	outage   loglimit.Outage
}

// open prepares the verification of a store that is being opened.
func (v *verification) open(s *Store, b backend.Backend) {
	v.s, v.first, v.closing, v.wake = s, make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	v.db, _ = b.(backend.Verifying)
	if !v.needed() {
		v.release()
	}
}

// close ends all waits, also those of writes, for which [Store.Close] waits.
func (v *verification) close() {
	v.release()
	v.closed.Do(func() { close(v.closing) })
}

func (v *verification) release() { v.released.Do(func() { close(v.first) }) }

// needed reports whether the server does not notice damage by itself.
func (v *verification) needed() bool { return v.db != nil && v.db.NoPageChecksums() }

// Verified returns a channel that is closed with the result of the first verification, whatever that is, at once if the
// server notices damage by itself, and at the latest by [Store.Close]. Until then, most requests wait or fail.
func (s *Store) Verified() <-chan struct{} { return s.verification.first }

// begin starts a verification unless one is running, and so fills the index if that is not complete.
func (v *verification) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.start()
}

// start is begin for callers that hold mu. If the last result is about another server, it ends the pause before the
// next attempt.
func (v *verification) start() {
	switch {
	case !v.running:
		v.running = v.s.background.start(v.run)
	case v.done && v.server != v.db.Server():
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}

// wait waits until the database is verified, and returns the server that was. Errors: [backend.ErrCorrupt],
// [backend.ErrUnavailable] after verifyWait, [backend.ErrClosed], that of ctx.
func (v *verification) wait(ctx context.Context) (backend.Server, error) {
	var late <-chan time.Time
	for v.needed() {
		v.mu.Lock()
		server := v.db.Server()
		if v.done && v.server == server {
			defer v.mu.Unlock()
			return server, v.err
		}
		v.start()
		if v.changed == nil {
			v.changed = make(chan struct{})
		}
		changed := v.changed
		v.mu.Unlock()
		if late == nil {
			late = time.After(verifyWait)
		}
		select {
		case <-changed:
		case <-late:
			return backend.Server{}, errUnverified
		case <-ctx.Done():
			return backend.Server{}, ctx.Err()
		case <-v.closing:
			return backend.Server{}, backend.ErrClosed
		}
	}
	return backend.Server{}, nil
}

// during calls read once the server is verified, and again if the server has changed meanwhile.
func (v *verification) during(ctx context.Context, read func() error) error {
	for {
		server, err := v.wait(ctx)
		if err != nil {
			return err
		}
		if err = read(); err != nil || !v.needed() || v.db.Server() == server {
			return err
		}
	}
}

// run verifies until the current server is sound and the index is complete.
func (v *verification) run() {
	for {
		server := v.db.Server()
		began := time.Now()
		p := newVerifier(v.s) // before the snapshot, which must not be behind the index
		err := v.db.Verify(v.s.ctx, p)
		_ = v.s.corruption.noticed(err)
		corrupt := errors.Is(err, backend.ErrCorrupt)
		switch {
		case v.s.ctx.Err() != nil, errors.Is(err, backend.ErrClosed):
			return
		case err == nil:
			v.s.corruption.mended()
			if v.outage.Worked() {
				v.s.cfg.Logger.Info("the database is verified")
			}
			v.s.cfg.Logger.Debug("rows and indexes verified", "took", time.Since(began))
		case errors.Is(err, ErrCompacted):
			if v.s.confirm(v.s.ctx) == nil {
				continue // at a newer revision: the next compaction may come soon
			}
		case errors.Is(err, backend.ErrFutureRevision):
			_ = v.s.confirm(v.s.ctx)
		case !corrupt && !errors.Is(err, errStale) && v.outage.Failed():
			v.s.cfg.Logger.Warn("the database is not verified yet: reads wait", "error", err)
		}
		retry, wake := loadRetry, (chan struct{})(nil)
		switch {
		case err == nil && v.settle(server, nil):
			return
		case corrupt && v.settle(server, err):
			retry, wake = v.s.cfg.verifyRetry, v.wake
		case err == nil, corrupt, errors.Is(err, errStale):
			continue // for another server, or another generation of the index
		}
		select {
		case <-time.After(retry):
		case <-wake:
		case <-v.s.ctx.Done():
			return
		}
	}
}

// settle records a result. It returns false if run must verify again at once.
func (v *verification) settle(server backend.Server, err error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.db.Server() != server {
		return false
	}
	v.release()
	v.done, v.server, v.err = true, server, err
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
	if err != nil {
		return true
	}
	v.running = !v.s.cfg.DisableIndex && !v.s.index.Complete()
	return !v.running
}

// verifier is the [backend.Verifier] of one verification.
type verifier struct {
	s       *Store
	at      index.Position
	clock   backend.Clock
	loading *index.Loading // nil if the index is complete
	rows    int64
	full    int64 // the revision above which every revision has rows
	first   int64 // rows that are the first of their revision, above that
}

func newVerifier(s *Store) *verifier {
	p := &verifier{s: s}
	loading, at := s.index.NewLoading()
	if p.at = at; !at.Complete && !s.cfg.DisableIndex {
		p.loading = loading
	}
	return p
}

// Begin implements [backend.Verifier].
func (p *verifier) Begin(c backend.Clock) error {
	p.clock, p.full = c, max(c.Compacted, p.s.gaps, 1)
	if c.Epoch != p.at.Epoch {
		return backend.ErrOtherEpoch // which this process has not noticed yet
	}
	return c.Check(p.at.Revision)
}

// Row implements [backend.Verifier].
func (p *verifier) Row(r *backend.Row) error {
	if r.ModRevision > p.clock.Revision {
		return fmt.Errorf("%w: it has a row of revision %d, but its clock is at %d; restore a backup",
			backend.ErrCorrupt, r.ModRevision, p.clock.Revision)
	}
	if r.Ordinal == 0 && r.ModRevision > p.full {
		p.first++
	}
	if p.loading != nil {
		p.loading.Add(r)
	}
	if p.rows++; p.rows%loadRows == 0 && p.s.index.Position().Generation != p.at.Generation {
		return errStale
	}
	return nil
}

// Rows implements [backend.Verifier].
func (p *verifier) Rows() error {
	if want := p.clock.Revision - p.full; p.first != want {
		return fmt.Errorf("%w: of the %d revisions above %d, %d have no row; restore a backup", backend.ErrCorrupt,
			want, p.full, want-p.first)
	}
	if p.loading == nil {
		return nil
	}
	if !p.s.index.Fill(p.loading) {
		return errStale
	}
	p.loading = nil
	p.s.load.finished()
	return nil
}
