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
	Since time.Time // of the first such batch after the last one that was committed
	Err   error
}

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
		now := time.Now()
		f := &WriteFault{At: now, Since: now, Err: err}
		if before := s.fault.Load(); before != nil {
			f.Since = before.Since
		}
		s.fault.Store(f)
		s.lastFault.Store(f)
	}
}
