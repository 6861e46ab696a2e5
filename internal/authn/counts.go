package authn

import "time"

// limit allows burst failures at once, and then rate per second.
type limit struct{ burst, rate float64 }

// counts are the failed logins by key, and those under way.
type counts[K comparable] struct {
	limit limit
	by    map[K]*level
}

// level is a leaky bucket of failures.
type level struct {
	failed   float64
	at       time.Time // when failed was calculated
	underWay float64
}

// counter is what counts for one key.
type counter struct {
	*level
	limit
}

// of returns the counter of a key.
func (c *counts[K]) of(key K) counter {
	if c.by == nil {
		c.by = map[K]*level{}
	}
	l := c.by[key]
	if l == nil {
		if len(c.by) >= mostCounted {
			c.forget(time.Now())
		}
		l = &level{}
		c.by[key] = l
	}
	return counter{l, c.limit}
}

// leak forgets failures that are long enough ago.
func (c counter) leak(now time.Time) {
	c.failed = max(0, c.failed-c.rate*now.Sub(c.at).Seconds())
	c.at = now
}

// delay returns how long another login must wait. If it is for those under way, it returns longestWait, though one of
// them may end sooner.
func (c counter) delay(now time.Time) time.Duration {
	c.leak(now)
	over := c.failed + c.underWay + 1 - c.burst
	switch {
	case over <= 0:
		return 0
	case over > c.failed:
		return longestWait
	}
	return time.Duration(over / c.rate * float64(time.Second))
}

// exhausted reports whether there would be a delay without logins under way.
func (c counter) exhausted(now time.Time) bool {
	c.leak(now)
	return c.failed+1 > c.burst
}

func (c counter) begin() { c.underWay++ }

func (c counter) end(now time.Time, succeeded bool) {
	c.underWay--
	if !succeeded {
		c.leak(now)
		c.failed++
	}
}

// forget removes the counts at or below the average, so that the most frequent failures stay.
func (c *counts[K]) forget(now time.Time) {
	sum := 0.0
	for _, l := range c.by {
		counter{l, c.limit}.leak(now)
		sum += l.failed + l.underWay
	}
	average := sum / float64(len(c.by))
	for key, l := range c.by {
		if l.underWay == 0 && l.failed <= average {
			delete(c.by, key)
		}
	}
}
