package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Outage is how long the clients of one replica got no write acknowledged around a fault.
type Outage struct {
	Replica string        // empty for clients of all replicas
	Writes  time.Duration // longest span between two consecutive acknowledged writes
	Reads   time.Duration // longest span between two consecutive reads
	After   time.Duration // from the end of the fault to the next acknowledged write
	Open    bool          // no write was acknowledged afterwards
	Errors  map[string]int
	Slowest time.Duration // request that failed
}

// Outages returns one for each replica, from the operations that ended after the fault began. The fault ended at
// healed.
func Outages(ops []*Op, began, healed, until time.Duration) []Outage {
	by := map[string][]*Op{}
	for _, o := range ops {
		by[o.Replica] = append(by[o.Replica], o)
	}
	var outages []Outage
	for _, replica := range slices.Sorted(maps.Keys(by)) {
		ops := by[replica]
		slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.End, b.End) })
		o := Outage{Replica: replica, Errors: map[string]int{}}
		for _, op := range ops {
			if op.End >= began && op.Outcome == Unknown {
				o.Errors[op.Err]++
				o.Slowest = max(o.Slowest, op.End-op.Start)
			}
			if op.End >= healed && op.Outcome == Done && op.Kind.Writes() && o.After == 0 {
				o.After = op.End - healed
			}
		}
		var open bool
		o.Writes, open = longest(ops, began, until, Kind.Writes)
		o.Open = open
		o.Reads, _ = longest(ops, began, until, func(k Kind) bool { return !k.Writes() })
		outages = append(outages, o)
	}
	return outages
}

// longest returns the longest span between two successes that ends after began, and whether it still lasts at until.
func longest(ops []*Op, began, until time.Duration, which func(Kind) bool) (span time.Duration, open bool) {
	var last time.Duration
	for _, o := range ops {
		if o.Outcome == Unknown || !which(o.Kind) {
			continue
		}
		if o.End >= began && o.End-last > span {
			span = o.End - last
		}
		last = o.End
	}
	return span, last < began || until-last > max(span, time.Second)
}

// Row is one line of the report of recovery times.
type Row struct {
	Fault   string
	Outages []Outage
}

// Table formats the report.
func Table(rows []Row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tclients of\twithout writes\tafter its end\twithout reads\tslowest failure\tfailed with")
	for _, r := range rows {
		for _, o := range r.Outages {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Fault, cmp.Or(o.Replica, "all"), seconds(o.Writes),
				seconds(o.After), seconds(o.Reads), seconds(o.Slowest), counts(o.Errors))
		}
	}
	_ = w.Flush() // into memory
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func counts(errors map[string]int) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(errors)) {
		parts = append(parts, fmt.Sprintf("%s %d", code, errors[code]))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
