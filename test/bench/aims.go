package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// aim is a bound on a ratio that sqlstore should keep.
type aim struct {
	phase, to, figure string
	bound             float64
	least             bool // the ratio must be at least the bound, not at most
}

// aims are sqlstore's: what makes it worth having beside etcd and kine.
var aims = []aim{
	{"create", "etcd", "CPU above bare", 0.5, false},
	{"update", "etcd", "CPU above bare", 0.5, false},
	{"delete", "etcd", "CPU above bare", 0.5, false},
	{"get", "etcd", "CPU above bare", 0.5, false},
	{"create", "etcd", "throughput", 1.1, true},
	{"update", "etcd", "throughput", 1.1, true},
	{"delete", "etcd", "throughput", 1.1, true},
	{"get", "etcd", "throughput", 1.1, true},
	{"page", "etcd", "CPU", 0.8, false},
	{"page-first", "etcd", "CPU", 1, false},
	{"list", "etcd", "CPU", 0.8, false},
	{"stream", "etcd", "CPU", 0.8, false},
	{"watch", "etcd", "CPU", 1, false},
	{"create", "etcd", "memory", 1, false},
	{"update", "etcd", "memory", 1, false},
	{"page", "etcd", "memory", 1, false},
	{"list", "etcd", "memory", 1, false},
	{"watch", "etcd", "memory", 1, false},
	{"create", "kine", "throughput", 5, true},
	{"update", "kine", "throughput", 5, true},
	{"delete", "kine", "throughput", 5, true},
	{"page", "kine", "throughput", 20, true},
}

func (a aim) value(r results) (spread, bool) {
	switch a.figure {
	case "throughput":
		return r.ratio(a.phase, "sqlstore", a.to, throughput)
	case "memory":
		return r.ratio(a.phase, "sqlstore", a.to, func(s slice) float64 { return float64(peak(s)) })
	case "CPU above bare":
		return r.above(a.phase, "sqlstore", a.to)
	default:
		return r.ratio(a.phase, "sqlstore", a.to, perOp)
	}
}

// printAims says which aims were kept.
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
		line(fmt.Sprintf("%s: %s against %s", a.phase, a.figure, a.to), fmt.Sprintf("%s %.2g", sign, a.bound), times(v, true), kept)
	}
	for _, st := range starts {
		for _, ready := range append(st.Clean, st.Killed...) {
			if st.Server == "sqlstore" {
				line("ready after start", "<= 2s", duration(ready), ready <= 2*time.Second)
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
			fmt.Fprintf(w, "\t%s\t%d\t%s\t%s\t%.2f\n", s.name, n, duration(first), duration(later), float64(later)/float64(smallest))
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
