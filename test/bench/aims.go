package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// aim is a bound on one of sqlstore's ratios.
type aim struct {
	phase, to, figure string
	bound             float64
	least             bool   // the bound is a minimum, not a maximum
	of                string // which sqlstore
}

// aims are sqlstore's goals against etcd and kine.
var aims = slices.Concat(aimsOnSQLite, aimsOnPostgres)

var aimsOnSQLite = []aim{
	{"create", "etcd", "CPU above bare", 0.5, false, "sqlstore"},
	{"update", "etcd", "CPU above bare", 0.5, false, "sqlstore"},
	{"delete", "etcd", "CPU above bare", 0.5, false, "sqlstore"},
	{"get", "etcd", "CPU above bare", 0.5, false, "sqlstore"},
	{"create", "etcd", "throughput", 1.1, true, "sqlstore"},
	{"update", "etcd", "throughput", 1.1, true, "sqlstore"},
	{"delete", "etcd", "throughput", 1.1, true, "sqlstore"},
	{"get", "etcd", "throughput", 1.1, true, "sqlstore"},
	{"page", "etcd", "CPU", 0.8, false, "sqlstore"},
	{"page-first", "etcd", "CPU", 1, false, "sqlstore"},
	{"list", "etcd", "CPU", 0.8, false, "sqlstore"},
	{"stream", "etcd", "CPU", 0.8, false, "sqlstore"},
	{"watch", "etcd", "CPU", 1, false, "sqlstore"},
	{"create", "etcd", "memory", 1, false, "sqlstore"},
	{"update", "etcd", "memory", 1, false, "sqlstore"},
	{"page", "etcd", "memory", 1, false, "sqlstore"},
	{"list", "etcd", "memory", 1, false, "sqlstore"},
	{"watch", "etcd", "memory", 1, false, "sqlstore"},
	{"create", "kine", "throughput", 5, true, "sqlstore"},
	{"update", "kine", "throughput", 5, true, "sqlstore"},
	{"delete", "kine", "throughput", 5, true, "sqlstore"},
	{"page", "kine", "throughput", 20, true, "sqlstore"},
	{compactionPhase, "", slowdown, 1.5, false, "sqlstore"},
	{compactionPhase, "", growth, 1.1, false, "sqlstore"},
}

var aimsOnPostgres = []aim{
	{"create", kinePostgres, "throughput", 8, true, onPostgres},
	{"update", kinePostgres, "throughput", 8, true, onPostgres},
	{"delete", kinePostgres, "throughput", 8, true, onPostgres},
	{"create", "etcd", "throughput", 1, true, onPostgres},
	{"update", "etcd", "throughput", 1, true, onPostgres},
	{"delete", "etcd", "throughput", 1, true, onPostgres},
	{"get", kinePostgres, "throughput", 1, true, onPostgres},
	{"page", kinePostgres, "throughput", 20, true, onPostgres},
	{"create", kinePooled, "throughput", 8, true, onPostgres},
	{"update", kinePooled, "throughput", 8, true, onPostgres},
	{"delete", kinePooled, "throughput", 8, true, onPostgres},
	{"get", kinePooled, "throughput", 1, true, onPostgres},
	{"page", kinePooled, "throughput", 20, true, onPostgres},
	{compactionPhase, "", slowdown, 1.5, false, onPostgres},
	{compactionPhase, "", slowdown, 1.5, false, onPostgres + "-2"},
	{compactionPhase, "", growth, 1.1, false, onPostgres},
	{compactionPhase, "", growth, 1.1, false, onPostgres + "-2"},
	{"follow", "", eventP50, 10, false, onPostgres + "-2"},
	{"follow", "", eventP50, 10, false, onPostgres + "-3"},
	{"follow@rate", "", eventP50, 10, false, onPostgres + "-2"},
	{"follow@rate", "", eventP50, 10, false, onPostgres + "-3"},
}

const (
	// eventP50 is not a ratio: milliseconds.
	eventP50 = "p50 of an event on another replica, in ms"
	// slowdown and growth compare a server with itself: see the methods of results.
	slowdown = "p99 of updates while rows go, to without compaction"
	growth   = "largest size in the last third of a slice, to the second"
)

func (a aim) value(r results) (spread, bool) {
	switch a.figure {
	case slowdown:
		return r.slowdown(a.of)
	case growth:
		return r.growth(a.of)
	case eventP50:
		var v []float64
		for _, s := range r.of(a.phase, a.of) {
			v = append(v, float64(s.P50)/1e6)
		}
		return spreadOf(v)
	case "throughput":
		return r.ratio(a.phase, a.of, a.to, throughput)
	case "memory":
		return r.ratio(a.phase, a.of, a.to, func(s slice) float64 { return float64(peak(s)) })
	case "CPU above bare":
		return r.above(a.phase, a.of, a.to)
	default:
		return r.ratio(a.phase, a.of, a.to, perOp)
	}
}

// printAims prints which aims were met.
func (c *config) printAims(out io.Writer, r results, starts []starting) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "\naim\tbound\tmeasured\t\n"
	line := func(what, bound, measured string, ok bool) {
		verdict := "kept"
		if !ok {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\n", head, what, bound, measured, verdict)
		head = ""
	}
	for _, a := range aims {
		v, ok := a.value(r)
		if !ok {
			continue
		}
		sign, kept := "<=", v.mid <= a.bound
		if a.least {
			sign, kept = ">=", v.mid >= a.bound
		}
		what := a.phase + ": " + a.figure
		if a.to != "" {
			what += " against " + a.to
		}
		if a.of != "sqlstore" {
			what = a.of + ", " + what
		}
		line(what, fmt.Sprintf("%s %.2g", sign, a.bound), times(v, true), kept)
	}
	for _, st := range starts {
		for _, ready := range append(st.Clean, st.Killed...) {
			if st.Server == "sqlstore" || strings.HasPrefix(st.Server, onPostgres) {
				line("ready after start: "+st.Server, "<= 2s", duration(ready), ready <= 2*time.Second)
			}
		}
	}
	_ = w.Flush()
}

// printGrowth compares pages between the sizes of a run: the first one of a list, and the later ones.
func printGrowth(out io.Writer, c *config, r results) {
	if len(c.sizes) < 2 {
		return
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CPU of a page\tserver\tobjects\tfirst\tlater\tlater, to the smallest size")
	for _, s := range c.servers {
		var smallest time.Duration
		for _, n := range c.sizes {
			first, later, ok := r.pages(c, s.name, n)
			if !ok {
				continue
			}
			if smallest == 0 {
				smallest = later
			}
			fmt.Fprintf(w, "\t%s\t%d\t%s\t%s\t%.2f\n", s.name, n, duration(first), duration(later),
				float64(later)/float64(smallest))
		}
	}
	_ = w.Flush()
}

// pages returns the CPU of a first page and of a later one. A walk is one of
// the first and the rest of the later.
func (r results) pages(c *config, server string, objects int) (first, later time.Duration, ok bool) {
	var mine results
	for _, s := range r {
		if s.Objects == objects {
			mine = append(mine, s)
		}
	}
	one, walk := mine.of("page-first", server), mine.of("page", server)
	sized := *c
	sized.objects = objects
	n := sized.pagesInWalk()
	if len(one) == 0 || len(walk) == 0 || n < 2 {
		return 0, 0, false
	}
	first = medianOf(one, cpuPerOp)
	later = (medianOf(walk, cpuPerOp)*time.Duration(n) - first) / time.Duration(n-1)
	return first, later, true
}
