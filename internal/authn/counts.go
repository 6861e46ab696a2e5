package authn

import "time"

// limit allows burst failures at once, and then rate per second.
type limit struct{ burst, rate float64 }

// counts are the failed logins by key, and those under way.
type counts[K comparable] struct {
	limit limit
	by    map[K]*level
}

func newCounts[K comparable](l limit) counts[K] { return counts[K]{limit: l, by: map[K]*level{}} }

// level is a leaky bucket of failures.
type level struct {
	failed   float64
	at       time.Time // when failed was calculated
	underWay float64
}

// leak forgets failures that are long enough ago.
func (l *level) leak(now time.Time, rate float64) {
	l.failed = max(0, l.failed-rate*now.Sub(l.at).Seconds())
	l.at = now
}

// delay returns how long another login must wait. If it is for those under way, it returns longestWait, though one of
// them may end sooner.
func (c *counts[K]) delay(key K, now time.Time) time.Duration {
	l := c.by[key]
	if l == nil {
		return 0
	}
	l.leak(now, c.limit.rate)
	over := l.failed + l.underWay + 1 - c.limit.burst
	switch {
	case over <= 0:
		return 0
	case over > l.failed:
		return longestWait
	}
	return time.Duration(over / c.limit.rate * float64(time.Second))
}

// exhausted reports whether failures take more than half of the limit, so that they are why logins wait.
func (c *counts[K]) exhausted(key K, now time.Time) bool {
	l := c.by[key]
	if l == nil {
		return false
	}
	l.leak(now, c.limit.rate)
	return l.failed > c.limit.burst/2
}

func (c *counts[K]) begin(key K) {
	l := c.by[key]
	if l == nil {
		if len(c.by) >= mostCounted {
			c.forget(time.Now())
		}
		l = &level{}
		c.by[key] = l
	}
	l.underWay++
}

func (c *counts[K]) end(key K, now time.Time, o Outcome) {
	l := c.by[key] // not forgotten, because it was under way
	l.underWay--
	if o == Failed {
		l.leak(now, c.limit.rate)
		l.failed++
	}
}

// forget removes what is not under way and at or below the average of that, so that the most frequent failures stay.
func (c *counts[K]) forget(now time.Time) {
	sum, n := 0.0, 0.0
	for _, l := range c.by {
		if l.underWay == 0 {
			l.leak(now, c.limit.rate)
			sum, n = sum+l.failed, n+1
		}
	}
	for key, l := range c.by {
		if l.underWay == 0 && l.failed <= sum/n {
			delete(c.by, key)
		}
	}
}
