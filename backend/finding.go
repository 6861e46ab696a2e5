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
// a hundred takes longer than limit. There must be at least one.
func LatencyFinding(subject string, durations []time.Duration, limit time.Duration, advice string) Finding {
	slices.Sort(durations)
	n := len(durations)
	p50, p99, name := durations[(n-1)/2], durations[(n*99+99)/100-1], "p99"
	if n < 100 {
		name = "max"
	}
	f := Finding{Subject: subject, Detail: fmt.Sprintf("p50 %v, %s %v of %d", p50.Round(time.Microsecond), name,
		p99.Round(time.Microsecond), n)}
	if p99 > limit {
		f.Severity = Warning
		f.Advice = fmt.Sprintf("%s: %s should be below %v", advice, name, limit)
	}
	return f
}
