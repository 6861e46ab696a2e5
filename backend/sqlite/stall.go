package sqlite

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// stallTimeout is how long a reader may keep the WAL from being copied before that counts, and is logged.
	stallTimeout = 10 * time.Second
	// stallPeriod is how often it is logged while it lasts.
	stallPeriod = 10 * time.Minute
)

// stall knows for how long the same reader has kept the WAL from being copied any further: a transaction that stays
// open in another program, such as a shell or a backup. Our own reads are short.
type stall struct {
	mu     sync.Mutex
	at     int64     // how far the WAL was copied
	since  time.Time // when it first was copied so far and no further, zero when all is copied
	logged time.Time // zero while nothing was logged
}

// observe takes what a round of copying came to, and says whether a reader that counted is gone.
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

// lasts is for how long, 0 when that does not count. Meanwhile the WAL cannot begin anew, and the writer need not stand
// still to try.
func (s *stall) lasts(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || now.Sub(s.since) < stallTimeout {
		return 0
	}
	return now.Sub(s.since)
}

// logSize is what the WAL takes on the disk over what it may.
func (b *Backend) logSize() (int64, error) {
	info, err := os.Stat(b.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, info.Size()-2*b.checkpoints.limit), nil
}
