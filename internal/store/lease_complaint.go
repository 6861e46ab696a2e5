package store

import (
	"errors"
	"time"
)

// complaintPeriod is how often a condition that lasts is logged.
const complaintPeriod = time.Minute

// complaint logs that leases have ended and cannot be revoked: once a minute for all of them, and when it is over. One
// goroutine at a time uses it.
type complaint struct {
	last time.Time // zero while all is well
}

// about takes the result of one look: why leases could not be revoked, nil when all could.
func (c *complaint) about(s *Store, failed []error) {
	switch now := time.Now(); {
	case s.ctx.Err() != nil:
	case len(failed) == 0:
		if !c.last.IsZero() {
			c.last = time.Time{}
			s.cfg.Logger.Info("leases that have ended are revoked again")
		}
	case errors.Is(failed[0], ErrCorrupt): // the alarm speaks for itself
	case now.Sub(c.last) > complaintPeriod:
		c.last = now
		s.cfg.Logger.Warn("leases that have ended cannot be revoked yet: they and their keys stay until the database "+
			"takes writes again",
			"leases", len(failed), "error", failed[0])
	}
}
