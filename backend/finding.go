package backend

import (
	"encoding"
	"fmt"
	"slices"
	"time"
)

// Severity says how bad a [Finding] is.
type Severity int

// The severities, in the order of their weight.
const (
	// OK needs nothing done.
	OK Severity = iota
	// Warning is a disadvantage that a server can run with.
	Warning
	// Failure stops a start, or makes it unsafe.
	Failure
)

var _ encoding.TextMarshaler = OK

// String returns the severity as people read it.
func (s Severity) String() string { return [...]string{"ok", "warning", "failure"}[s] }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is what an examination of a database, or of the machine, says about one thing.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`          // such as "commit latency"
	Detail   string   `json:"detail"`           // what was found, with units
	Advice   string   `json:"advice,omitempty"` // what to do; empty if OK
}

// LatencyFinding is a finding about durations that should be short: it is a warning with the advice if more than one in
// a hundred takes longer than limit.
func LatencyFinding(subject string, durations []time.Duration, limit time.Duration, advice string) Finding {
	slices.Sort(durations)
	p50, p99 := durations[len(durations)/2], durations[len(durations)*99/100]
	f := Finding{Subject: subject, Detail: fmt.Sprintf("p50 %v, p99 %v of %d", p50.Round(time.Microsecond),
		p99.Round(time.Microsecond), len(durations))}
	if p99 > limit {
		f.Severity = Warning
		f.Advice = fmt.Sprintf("%s: p99 should be below %v", advice, limit)
	}
	return f
}
