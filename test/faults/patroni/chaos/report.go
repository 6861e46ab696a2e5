package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/cluster/audit"
)

// entry is one fault that happened.
type entry struct {
	kind, detail string
	began        time.Time
	held         time.Duration // until it was healed
	// noWrite is the longest time without an acknowledged write of any client; recovered is the time from the end of
	// the fault until every replica acknowledged writes, healthy the time until all of Patroni's nodes were healthy.
	noWrite, recovered, healthy time.Duration
	with                        string // another fault at the same time
	failed                      string // why it ended the run
}

// report collects what happened.
type report struct {
	mu     sync.Mutex
	began  time.Time
	seed   uint64
	faults []*entry
	notes  []string

	rounds, compactions                      int
	requests, answered, writes, events, late int
	leases                                   int
}

func (r *report) add(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, e)
}

// note adds something worth knowing that is not an error.
func (r *report) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf("%7.1f s  ", time.Since(r.began).Seconds())+fmt.Sprintf(format, args...))
}

func (r *report) compacted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compactions++
}

// checked adds a round's result.
func (r *report) checked(a audit.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	r.requests += a.Requests
	r.answered += a.Answered
	r.writes += a.Writes
	r.events += a.Events
	r.leases += a.Leases
	if a.Late != nil {
		r.late++
	}
}

// String formats the report: totals, a table of kinds, and every fault.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %.1f minutes, %d faults of %d kinds, %d rounds\n", r.seed,
		time.Since(r.began).Minutes(), len(r.faults), len(r.kinds()), r.rounds)
	fmt.Fprintf(&b, "checked: %d requests, %d of them answered, %d writes, %d events of watches, %d leases; "+
		"%d compactions; %d rounds needed the staleness bound\n\n", r.requests, r.answered, r.writes, r.events,
		r.leases, r.compactions, r.late)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tnumber\tno write for, median\tlongest\trecovered in, median\tlongest\t"+
		"nodes healthy in, longest")
	for _, name := range r.kinds() {
		of := slices.DeleteFunc(slices.Clone(r.faults), func(e *entry) bool { return e.kind != name })
		noWrite, noWriteMax := summary(of, func(e *entry) time.Duration { return e.noWrite })
		recovered, recoveredMax := summary(of, func(e *entry) time.Duration { return e.recovered })
		_, healthyMax := summary(of, func(e *entry) time.Duration { return e.healthy })
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", name, len(of), noWrite, noWriteMax, recovered, recoveredMax,
			healthyMax)
	}
	fmt.Fprintln(w, "\nat\tfault\t\theld\tno write for\trecovered in\tnodes healthy in\tat the same time")
	for _, e := range r.faults {
		fmt.Fprintf(w, "%.1f s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.began.Sub(r.began).Seconds(), e.kind, e.detail,
			seconds(e.held), seconds(e.noWrite), seconds(e.recovered), seconds(e.healthy), cmp.Or(e.failed, e.with))
	}
	_ = w.Flush() // into memory
	for _, n := range r.notes {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}

// kinds returns the kinds of faults that happened, in order.
func (r *report) kinds() []string {
	var names []string
	for _, e := range r.faults {
		names = append(names, e.kind)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func summary(of []*entry, value func(*entry) time.Duration) (median, longest string) {
	var values []time.Duration
	for _, e := range of {
		values = append(values, value(e))
	}
	slices.Sort(values)
	return seconds(values[len(values)/2]), seconds(values[len(values)-1])
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
