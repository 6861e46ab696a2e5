package recent

import (
	"math"
	"strconv"
	"time"
)

// Series is one of the recorded series.
type Series int

// The series. Durations are in seconds, sizes in bytes.
const (
	Writes      Series = iota // keys put and deleted by this server, per second
	Revisions                 // commits by all replicas, per second
	Reads                     // ranges of etcd's API, and gets and lists of the list/watch API, per second
	CommitP50                 // durations of commits: the median
	CommitP99                 // and the 99th percentile
	ReadP50                   // durations of ranges of etcd's API: the median
	ReadP99                   // and the 99th percentile
	Watches                   // open watches
	SlowWatches               // of them, those that catch up with the past
	Total                     // size of the database
	InUse                     // of it, what is not free for reuse
	WAL                       // size of SQLite's write-ahead log
	Quota                     // size that raises the NOSPACE alarm; a gap without one
	Keys                      // number of keys
	CacheHits                 // part of the values, from 0 to 1, that reads found in memory
	Memory                    // resident memory of the process
	seriesCount
)

// names are those in JSON.
var names = [seriesCount]string{
	"writes", "revisions", "reads", "commitP50", "commitP99", "readP50", "readP99", "watches", "slowWatches", "total",
	"inUse", "wal", "quota", "keys", "cacheHits", "memory",
}

// String returns the name in JSON.
func (s Series) String() string { return names[s] }

// Sample is the value of every series at one time.
type Sample struct {
	at     int64 // in milliseconds since 1970
	values [seriesCount]float64
}

// newSample returns the sample of a reading, and of what happened since the one before. Either is nil if there is none.
func newSample(now time.Time, read, before *reading) Sample {
	s := Sample{at: now.UnixMilli()}
	for i := range s.values {
		s.values[i] = math.NaN()
	}
	if read == nil {
		return s
	}
	v := &s.values
	v[Watches], v[SlowWatches] = read.watches, read.slowWatches
	v[Total], v[InUse], v[WAL], v[Keys], v[Memory] = read.total, read.inUse, read.wal, read.keys, read.memory
	if read.quota > 0 {
		v[Quota] = read.quota
	}
	if before == nil {
		return s
	}
	seconds := read.at.Sub(before.at).Seconds()
	if seconds <= 0 { // the clock was set back
		return s
	}
	v[Writes] = increase(before.writes, read.writes) / seconds
	v[Revisions] = increase(before.revision, read.revision) / seconds
	v[Reads] = increase(before.reads, read.reads) / seconds
	hits, misses := increase(before.hits, read.hits), increase(before.misses, read.misses)
	if hits+misses > 0 {
		v[CacheHits] = hits / (hits + misses)
	}
	commits, ranges := read.commits.since(before.commits), read.ranges.since(before.ranges)
	v[CommitP50], v[CommitP99] = commits.quantile(0.5), commits.quantile(0.99)
	v[ReadP50], v[ReadP99] = ranges.quantile(0.5), ranges.quantile(0.99)
	return s
}

// increase returns how much a counter grew, NaN if it started again.
func increase(before, now float64) float64 {
	if now < before {
		return math.NaN()
	}
	return now - before
}

// Time returns when the sample was taken.
func (s *Sample) Time() time.Time { return time.UnixMilli(s.at) }

// Value returns the value of a series; ok is false if there is none.
func (s *Sample) Value(of Series) (v float64, ok bool) {
	v = s.values[of]
	return v, !math.IsNaN(v)
}

// MarshalJSON returns an object with the time, in seconds since 1970, and the values by series, null for a gap.
func (s *Sample) MarshalJSON() ([]byte, error) {
	b := appendSeconds([]byte(`{"time":`), s.at)
	for i, v := range s.values {
		b = append(append(append(b, `,"`...), names[i]...), `":`...)
		b = appendValue(b, v)
	}
	return append(b, '}'), nil
}

func appendSeconds(b []byte, ms int64) []byte {
	return strconv.AppendFloat(b, float64(ms)/1000, 'f', -1, 64)
}

// appendValue appends a number, with six digits unless it is whole, or null.
func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return append(b, "null"...)
	case v == math.Trunc(v):
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', 6, 64)
}
