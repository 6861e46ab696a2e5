// Package loglimit limits how often a line is logged: [Limit] one that clients can trigger at will, [Outage] one about
// work that is tried again until it succeeds.
package loglimit

import (
	"sync"
	"time"
)

// Limit allows a number of lines in each period and counts the others.
type Limit struct {
	Lines  int
	Period time.Duration

	mu      sync.Mutex
	began   time.Time // of the period
	passed  int       // in the period
	skipped int       // since the last line
}

// Allow reports whether to log a line now, and how many were skipped since the last one.
func (l *Limit) Allow() (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= l.Period {
		l.began, l.passed = now, 0
	}
	if l.passed >= l.Lines {
		l.skipped++
		return 0, false
	}
	l.passed++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
