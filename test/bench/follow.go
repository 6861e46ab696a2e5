package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// followPhases are updates through the first replica, watched at each of the others. An operation is an event that a
// client of another replica received. Its latency counts from when the sender had the update's acknowledgement, which
// is later than the commit by the time that the answer takes, and is negative if the event arrived first. The time
// since the update was sent, and the update's own duration, are recorded, too. One update at a time shows the delay on
// an otherwise idle replica; many at a fixed rate show it under load.
func (c *config) followPhases() []*phase {
	alone := func(t *target) bool { return t.count < 2 }
	all := []*phase{{name: "follow", skip: alone, run: func(ctx context.Context, t *target) (*outcome, error) {
		return t.follow(ctx, load{clients: 1, span: c.span})
	}}}
	if c.rate > 0 {
		all = append(all, &phase{name: "follow@rate", skip: alone, run: func(ctx context.Context, t *target) (*outcome,
			error,
		) {
			return t.follow(ctx, load{clients: max(1, c.clients/t.count), span: c.span, rate: c.rate})
		}})
	}
	return all
}

func (t *target) follow(ctx context.Context, l load) (*outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Connection n goes to replica n modulo their number.
	ws, err := t.openWatchers(ctx, t.count-1, t.conns[1:t.count])
	if err != nil {
		return nil, err
	}
	out, writes, err := t.updatesFor(ctx, l, t.count, ws...)
	if err != nil {
		return nil, err
	}
	out.latency = nil
	for _, w := range ws {
		came, err := w.check(writes)
		if err != nil {
			return nil, err
		}
		for i, at := range came {
			out.latency = append(out.latency, at.Sub(writes[i].acked))
			out.sent = append(out.sent, at.Sub(writes[i].at))
		}
	}
	for _, s := range writes {
		out.write = append(out.write, s.acked.Sub(s.at))
	}
	out.ops = len(out.latency)
	return out, nil
}

// printReplicas prints what additional replicas gain, and how soon after an update another replica delivers its event.
func (c *config) printReplicas(out io.Writer, r results) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "\nreplicas\tphase\top/s, to 1 replica's\tserver CPU/op\tPostgres CPU/op\n"
	for _, s := range c.servers {
		for _, p := range c.allPhases() {
			of, ok := r.ratio(p.name, s.name, onPostgres, throughput)
			if s.count < 2 || !ok {
				continue
			}
			cpu, _ := r.ratio(p.name, s.name, onPostgres, perOp)
			db, okDB := r.ratio(p.name, s.name, onPostgres, databasePerOp)
			fmt.Fprintf(w, "%s%d\t%s\t%s\t%s\t%s\n", head, s.count, p.name, times(of, true), times(cpu, true),
				times(db, okDB))
			head = ""
		}
	}
	head = "\nevent on another replica\tserver\tafter the acknowledgement: p50\tp99\tafter sending: p50\tthe update " +
		"itself: p50\n"
	for _, p := range c.followPhases() {
		for _, s := range c.servers {
			of := r.of(p.name, s.name)
			if len(of) == 0 {
				continue
			}
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", head, p.name, s.name, duration(medianOf(of, half)),
				duration(medianOf(of, slowest)),
				duration(medianOf(of, func(s slice) time.Duration { return s.SentP50 })),
				duration(medianOf(of, func(s slice) time.Duration { return s.WriteP50 })))
			head = ""
		}
	}
	_ = w.Flush()
}
