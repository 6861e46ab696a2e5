package main

import (
	"context"
	"slices"
	"time"
)

// compactPhase always runs, even if not requested.
const compactPhase = "compact"

// phase is one kind of work that is measured.
type phase struct {
	name string
	// asked: runs only if requested by name.
	asked bool
	// retention is that of the automatic compaction that the server runs with, 0 for none.
	retention time.Duration
	// skip: this server cannot do it, or it would be meaningless there.
	skip func(*target) bool
	// prepare is done before, unmeasured.
	prepare func(context.Context, *target) error
	run     func(context.Context, *target) (*outcome, error)
}

// allPhases returns the phases in the order of a pair. Compaction ends the pair, so that each begins with the same
// contents and no history.
func (c *config) allPhases() []*phase {
	all := c.pointPhases(0, "")
	all = append(all, c.listPhases()...)
	all = append(all, c.chunkPhases()...)
	if c.rate > 0 {
		all = append(all, c.pointPhases(c.rate, "@rate")...)
	}
	all = append(all, c.watchPhases()...)
	all = append(all, c.followPhases()...)
	all = append(all, c.compactionPhases()...)
	return append(all, c.compaction())
}

// inTurn is allPhases for one pair: with and without compaction alternate in going first.
func (c *config) inTurn(pair int) []*phase {
	all := c.allPhases()
	if i := slices.IndexFunc(all, func(p *phase) bool { return p.name == steadyPhase }); pair%2 == 1 {
		all[i], all[i+1] = all[i+1], all[i]
	}
	return all
}

// compaction removes all history and waits until it is gone; an operation is one revision (kine keeps the last 1,000).
func (c *config) compaction() *phase {
	return &phase{
		name:    compactPhase,
		skip:    func(t *target) bool { return t.canned },
		prepare: func(ctx context.Context, t *target) error { return t.deleteCreated(ctx) },
		run: func(ctx context.Context, t *target) (*outcome, error) {
			began := time.Now()
			n, err := t.compact(ctx)
			took := time.Since(began)
			return &outcome{ops: int(n), wall: took, latency: []time.Duration{took}}, err
		},
	}
}
