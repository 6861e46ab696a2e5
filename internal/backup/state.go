package backup

import (
	"cmp"
	"context"
	"time"
)

// State describes the backups of one server.
type State struct {
	// Leads is set on the server that makes them.
	Leads bool
	// Since is when it began to.
	Since time.Time
	// Saved is when everything that was committed was last saved, the zero time if it never was since Since.
	Saved time.Time
	// Revision is the one up to which everything is saved, 0 if that is not known.
	Revision int64
	// Full is when the full backup began that is being written, the zero time if none is.
	Full time.Time
	// LastFull is when the full backup began that changes are saved after, the zero time if there is none.
	LastFull time.Time
	// Err is why the last attempt failed, nil if it did not. FullErr is that of the last full backup.
	Err, FullErr error
	// Files, Rows and Bytes count what was written since the start, Failures the attempts that failed. Bytes are those
	// of keys and values.
	Files, Fulls, Rows, Bytes, Failures int64
}

// Age returns for how long the store has not been saved completely.
func (s *State) Age(now time.Time) time.Duration {
	last := s.Since
	if s.Saved.After(last) {
		last = s.Saved
	}
	return now.Sub(last)
}

// State returns the current state.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *Runner) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	s.Leads, s.Err, s.FullErr, s.Full, s.LastFull, s.Revision = false, nil, nil, time.Time{}, time.Time{}, 0
}

func (r *Runner) beginFull(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Full = at
}

func (r *Runner) endFull(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.FullErr = err
}

func (r *Runner) wrote(f Footer, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	s.Files, s.Rows, s.Bytes = s.Files+1, s.Rows+f.Rows, s.Bytes+f.Bytes
	if full {
		s.Fulls++
	}
}

// report records how an attempt went, which saved what was committed when it began, and logs a change.
func (r *Runner) report(ctx context.Context, began time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	s := &r.state
	failed := s.Err != nil
	if !s.Leads {
		s.Leads, s.Since = true, began
	}
	works := err == nil && r.chain != nil // without a chain, nothing is saved until a full backup is complete
	switch {
	case err != nil:
		s.Err = err
		s.Failures++
	case works:
		s.Err, s.Saved, s.Revision, s.LastFull = nil, began, r.chain.through, r.chain.began
	}
	if r.full == nil {
		s.Full = time.Time{}
	}
	r.mu.Unlock()
	switch {
	case err != nil && !failed:
		r.log.Warn("the backup failed; it is tried again", "every", cmp.Or(r.cfg.Interval, time.Second), "error", err)
	case works && failed:
		r.log.Info("the backup works again")
	}
}
