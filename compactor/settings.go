package compactor

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/internal/setting"
)

const (
	// revisionPeriod is how often the revision mode checks.
	revisionPeriod = 5 * time.Minute
	// shortestPeriod is the shortest retention: with less, compaction would never pause.
	shortestPeriod = time.Second
	// longestInterval is the longest time between two periodic compactions, however long the retention.
	longestInterval = time.Hour
	// samples is how many times the revision is recorded per interval.
	samples = 10
)

// settings are a valid Config.
type settings struct {
	mode      Mode
	retention string
	period    time.Duration // periodic
	revisions int64         // revision
}

func (c Config) settings() (s settings, err error) {
	s = settings{mode: c.Mode, retention: c.Retention}
	retention := c.Retention
	if retention == "" {
		retention = "0"
	}
	switch c.Mode {
	case Off:
	case Periodic:
		s.period, err = parsePeriod(retention)
	case Revision:
		s.revisions, err = strconv.ParseInt(retention, 10, 64)
		if err != nil || s.revisions < 0 {
			err = fmt.Errorf("%w: %s %q is not a number of revisions, such as 1000", ErrConfig,
				setting.Name("Compaction.Retention"), retention)
		}
	default:
		err = fmt.Errorf("%w: %s %q is neither periodic nor revision", ErrConfig, setting.Name("Compaction.Mode"),
			c.Mode)
	}
	if s.period == 0 && s.revisions == 0 {
		s.mode, s.retention = Off, ""
	}
	return s, err
}

// parsePeriod parses a duration; a bare number means hours.
func parsePeriod(s string) (time.Duration, error) {
	if hours, err := strconv.ParseInt(s, 10, 64); err == nil {
		if hours < 0 || hours > math.MaxInt64/int64(time.Hour) {
			return 0, badPeriod(s, "is not a possible number of hours")
		}
		return time.Duration(hours) * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, badPeriod(s, "is neither a duration nor a number of hours: write 90m or 12h, or 12 for hours")
	}
	if d > 0 && d < shortestPeriod {
		return 0, badPeriod(s, fmt.Sprintf("is shorter than %v", shortestPeriod))
	}
	return d, nil
}

func badPeriod(s, why string) error {
	return fmt.Errorf("%w: %s %q %s", ErrConfig, setting.Name("Compaction.Retention"), s, why)
}

// interval is the time between two compactions, without the jitter.
func (s settings) interval() time.Duration {
	switch s.mode {
	case Periodic:
		return min(s.period, longestInterval)
	case Revision:
		return revisionPeriod
	}
	return longestInterval
}

// sample returns the time between two records of the revision. They are kept even if no period needs them, because one
// may be set later.
func (s settings) sample() time.Duration { return max(s.interval()/samples, time.Millisecond) }

// remember returns how far back the notes go.
func (s settings) remember() time.Duration {
	if s.mode == Periodic {
		return s.period
	}
	return longestInterval
}
