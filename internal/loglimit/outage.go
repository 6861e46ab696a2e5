package loglimit

import (
	"sync"
	"time"
)

// outagePeriod is how often a lasting fault is logged.
const outagePeriod = time.Minute

// Outage limits what is logged about work that is tried again and again until it succeeds: the first failure, one a
// minute while it fails, and that it works again. Work that succeeds now and then logs no more than that. The zero
// value is ready.
type Outage struct {
	mu     sync.Mutex
	logged time.Time // when a failure was last logged, zero if never
	lasts  bool      // nothing has succeeded since
}

// Failed reports whether to log a failure.
func (o *Outage) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.logged.IsZero() || now.Sub(o.logged) >= outagePeriod {
		o.logged, o.lasts = now, true
		return true
	}
	return false
}

// Worked reports whether to log that the work succeeds again: the last line is about a failure.
func (o *Outage) Worked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted := o.lasts
	o.lasts = false
	return lasted
}
