package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints every phase and server with its medians and, as the median of the pairs' own ratios, how it
// compares with etcd and with kine on the same kind of database.
func (c *config) printTable(out io.Writer, r results, starts []starting) {
	fmt.Fprintf(out, "\n%d objects of %d bytes, %d clients on %d connections, %d pairs of %v\n",
		c.objects, c.value, c.clients, c.conns, c.pairs, c.span)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "phase\tserver\top/s\tp50\tp99\tCPU/op\tPostgres\tabove bare\tpeak\tanon\top/s /etcd\tCPU "+
		"/etcd\tabove bare /etcd\top/s /kine\tCPU /kine\tclient CPU\tother load\t")
	for _, p := range c.allPhases() {
		for _, s := range c.servers {
			c.printRow(w, r, p.name, s)
		}
	}
	_ = w.Flush()
	c.printStarts(out, starts)
}

func (c *config) printRow(w io.Writer, r results, phase string, s *server) {
	of := r.of(phase, s.name)
	if len(of) == 0 {
		return
	}
	above := "-"
	if bare := r.of(phase, "bare"); len(bare) > 0 && !s.canned {
		above = duration(medianOf(of, cpuPerOp) - medianOf(bare, cpuPerOp))
	}
	kine := "kine"
	if s.onPostgres {
		kine = kinePostgres
	}
	cols := []string{
		phase, s.name, rate(medianOf(of, throughput)), duration(medianOf(of, half)), duration(medianOf(of, slowest)),
		duration(medianOf(of, cpuPerOp)), duration(time.Duration(medianOf(of, databasePerOp))), above,
		size(medianOf(of, peak)), size(medianOf(of, anonymous)),
		times(r.ratio(phase, s.name, "etcd", throughput)), times(r.ratio(phase, s.name, "etcd", perOp)),
		times(r.above(phase, s.name, "etcd")),
		times(r.ratio(phase, s.name, kine, throughput)), times(r.ratio(phase, s.name, kine, perOp)),
		duration(time.Duration(medianOf(of, clientCost))), fmt.Sprintf("%.0f%%", 100*medianOf(of, otherShare)),
	}
	if s.name == "etcd" {
		cols[10], cols[11], cols[12] = "1", "1", "1"
	}
	if s.canned {
		cols[12] = "-"
	}
	if s.name == kine {
		cols[13], cols[14] = "1", "1"
	}
	fmt.Fprintln(w, strings.Join(cols, "\t")+"\t")
}

func (c *config) printStarts(out io.Writer, starts []starting) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "server\tready after stop\tready after kill\tmemory when ready (anon)\tfilled in\tsyncs per "+
		"write\tdurability")
	for i, st := range starts {
		syncs := fmt.Sprintf("%.2f", st.Syncs)
		if st.Syncs < 0 {
			syncs = "not counted"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s (%s)\t%s\t%s\t%s\n", st.Server, duration(median(st.Clean)),
			duration(median(st.Killed)),
			size(st.Memory.Peak), size(st.Memory.Anon), duration(st.Fill), syncs, c.servers[i].note)
	}
	_ = w.Flush()
}

// times formats a ratio, e.g. 0.48 [0.45-0.52].
func times(s spread, ok bool) string {
	if !ok {
		return "-"
	}
	if s.low == s.high {
		return fmt.Sprintf("%.2f", s.mid)
	}
	return fmt.Sprintf("%.2f [%.2f-%.2f]", s.mid, s.low, s.high)
}

func duration(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs == 0:
		return "-"
	case abs < 100*time.Microsecond:
		return fmt.Sprintf("%.1fµs", float64(d)/1e3)
	case abs < 10*time.Millisecond:
		return fmt.Sprintf("%.0fµs", float64(d)/1e3)
	case abs < 10*time.Second:
		return fmt.Sprintf("%.0fms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}

func rate(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

func size(n int64) string { return fmt.Sprintf("%dM", n>>20) }
