package store

import (
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// WriteFault is a batch that the database did not take, for no fault of its contents.
type WriteFault struct {
	At  time.Time
	Err error
}

// Writing is the state of writing.
type Writing struct {
	// Fault is the last batch that the database did not take, nil when one has been committed since.
	Fault *WriteFault
	// Commit is for how long the commit under way has been, 0 when there is none.
	Commit time.Duration
}

// Writing returns the state of writing. It does not ask the database.
func (s *Store) Writing() Writing {
	w := Writing{Fault: s.fault.Load()}
	if began := s.committing.Load(); began != nil {
		w.Commit = max(1, time.Since(*began))
	}
	return w
}

// OutOfSpace returns a [backend.ErrNoSpace] while the database has released its disk reserve and takes only deletes and
// compaction, nil otherwise.
func (s *Store) OutOfSpace() error {
	if s.reserve == nil {
		return nil
	}
	return s.reserve.OutOfSpace()
}

// NoSpace says that the disk was full.
func (f *WriteFault) NoSpace() bool { return errors.Is(f.Err, backend.ErrNoSpace) }

// noteFault keeps what came of a batch.
func (s *Store) noteFault(err error) {
	switch {
	case err == nil:
		if s.fault.Load() != nil {
			s.fault.Store(nil)
		}
	case errors.Is(err, ErrTxnTooLarge), errors.Is(err, backend.ErrRejected), errors.Is(err, backend.ErrConflict):
	default:
		s.fault.Store(&WriteFault{time.Now(), err})
	}
}
