package store

import (
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// WriteFault is a batch that the database did not commit for a reason other than its contents, or a heartbeat that it
// did not answer.
type WriteFault struct {
	At    time.Time
	Since time.Time // of the first of a series of such batches, without one that was committed; zero once it has ended
	Err   error
}

// faultPause ends a series of batches that fail: if no other was tried for so long, the next one may have failed for
// another reason.
const faultPause = 30 * time.Second

// Writing describes the state of the write path.
type Writing struct {
	// Fault is the last batch that the database did not commit, nil if a batch has been committed since.
	Fault *WriteFault
	// Commit is how long the commit under way has been running, 0 if there is none.
	Commit time.Duration
}

// Writing returns the state of the write path. It does not access the database.
func (s *Store) Writing() Writing {
	w := Writing{Fault: s.fault.Load()}
	if began := s.committing.Load(); began != nil {
		w.Commit = max(1, time.Since(*began))
	}
	return w
}

// LastFault returns the last batch that the database did not commit, or the last heartbeat that it did not answer, even
// if it has worked since; nil if there was none.
func (s *Store) LastFault() *WriteFault { return s.lastFault.Load() }

// OutOfSpace returns a [backend.ErrNoSpace] while the database has released its disk reserve and accepts only deletes
// and compaction, nil otherwise.
func (s *Store) OutOfSpace() error {
	if s.reserve == nil {
		return nil
	}
	return s.reserve.OutOfSpace()
}

// Refused returns why the database accepts no writes until the server is restarted, nil while it accepts them.
func (s *Store) Refused() error {
	if s.refusing == nil {
		return nil
	}
	return s.refusing.Refused()
}

// Lasted returns for how long all batches have failed, 0 if the database was out of reach and is no longer.
func (f *WriteFault) Lasted() time.Duration {
	if f.Since.IsZero() {
		return 0
	}
	return f.At.Sub(f.Since)
}

// NoSpace reports whether the disk was full.
func (f *WriteFault) NoSpace() bool { return errors.Is(f.Err, backend.ErrNoSpace) }

// noteFault records the outcome of a batch. It ignores errors that the contents of the batch or a conflict caused.
func (s *Store) noteFault(err error) {
	switch {
	case err == nil:
		if s.fault.Load() != nil {
			s.fault.Store(nil)
		}
	case errors.Is(err, ErrTxnTooLarge), errors.Is(err, ErrResultTooLarge), errors.Is(err, backend.ErrRejected),
		errors.Is(err, backend.ErrConflict):
	case isCorruptRow(err): // the alarm reports it
	default:
		s.lastFault.Store(s.addFault(err))
	}
}

// addFault adds a batch to a series, and returns it.
func (s *Store) addFault(err error) *WriteFault {
	for {
		before, now := s.fault.Load(), time.Now()
		f := &WriteFault{At: now, Since: now, Err: err}
		if before != nil && !before.Since.IsZero() && now.Sub(before.At) < faultPause {
			f.Since = before.Since
		}
		if s.fault.CompareAndSwap(before, f) {
			return f
		}
	}
}

// endFaults ends a series of batches that fail, now that the database is in reach again: it explains the ones before.
func (s *Store) endFaults() {
	for f := s.fault.Load(); f != nil && !s.fault.CompareAndSwap(f, &WriteFault{At: f.At, Err: f.Err}); {
		f = s.fault.Load()
	}
}
