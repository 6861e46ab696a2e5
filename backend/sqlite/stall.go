package sqlite

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// stallTimeout is how long a reader may keep the WAL from being copied before it counts as a stall and is logged.
	stallTimeout = 10 * time.Second
	// stallPeriod is how often a stall is logged while it lasts.
	stallPeriod = 10 * time.Minute
)

// stall tracks how long the same reader has kept the WAL from being copied any further. Such a reader is a transaction
// that stays open in another program, such as a shell or a backup; our own reads are short.
type stall struct {
	mu     sync.Mutex
	at     int64     // bytes of the WAL that were copied
	since  time.Time // when copying first stopped there; zero when everything is copied
	logged time.Time // when the stall was last logged, zero if it was not
}

// observe records the result of a round of copying, and reports whether a reader that caused a stall is gone.
func (s *stall) observe(b *Backend, w wal, now time.Time) (released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.copied == w.total || s.since.IsZero() || w.copied != s.at {
		released = !s.since.IsZero() && now.Sub(s.since) >= stallTimeout
		if !s.logged.IsZero() {
			s.logged = time.Time{}
			b.log.Info("the write-ahead log is copied into the database again", "path", b.path)
		}
		if s.at, s.since = w.copied, now; w.copied == w.total {
			s.since = time.Time{}
		}
		return released
	}
	if now.Sub(s.since) >= stallTimeout && now.Sub(s.logged) >= stallPeriod {
		s.logged = now
		b.log.Warn("a long transaction in another program keeps the write-ahead log growing: end it; "+
			"'fuser -v' on the file shows which program it is",
			"path", b.path, "for", now.Sub(s.since).Round(time.Second), "log-bytes", w.total)
	}
	return false
}

// lasts returns how long the stall has lasted, 0 if there is none. During a stall the WAL cannot start again from its
// beginning, so there is no point in blocking the writer to try.
func (s *stall) lasts(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || now.Sub(s.since) < stallTimeout {
		return 0
	}
	return now.Sub(s.since)
}

// logSize returns the bytes that the WAL takes on disk, in all and beyond what it may take.
func (b *Backend) logSize() (all, beyond int64, err error) {
	info, err := os.Stat(b.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), max(0, info.Size()-2*b.checkpoints.limit), nil
}
