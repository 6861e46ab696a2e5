package putback

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// together is how many keys are compared at once, and so how many values are in memory, twice.
	together = 32
	// inFlight is how many requests wait for their answers at once.
	inFlight = 32
)

// Difference is a key that is not what it was. Both rows have values; one is nil where the key does not exist.
type Difference struct {
	Key       string
	Then, Now *backend.Row
	// Lease is what the key gets when it is put back: the lease that it had, or the one that it has now if that has
	// ended, or none.
	Lease int64
	// Ended is the lease that it had, if that has ended.
	Ended int64
}

// Counts are numbers of keys.
type Counts struct {
	Then, Now int // that exist at the point, and now
	Equal     int // that need no write
}

// Comparison compares the keys of spans at a point with those of now.
type Comparison struct {
	Then, Now Past
	// Values also compares the values of keys that have the same revision then and now: Then may be of another store,
	// or of history that was lost.
	Values bool
	// Lives reports whether a lease exists.
	Lives func(ctx context.Context, lease int64) (bool, error)
	// Spans must not overlap.
	Spans []backend.Span

	counts  Counts
	pending []*Difference
	f       func(*Difference) error
}

// Run calls f with the keys that differ, in the order of the spans and keys. Within one history, a key with the same
// revision is the same key, so only the values of others are read. Errors: those of f, of reading, and of asking for
// leases.
func (c *Comparison) Run(ctx context.Context, f func(*Difference) error) (Counts, error) {
	c.f = f
	for _, span := range c.Spans {
		if err := c.span(ctx, span); err != nil {
			return c.counts, err
		}
	}
	return c.counts, c.flush(ctx)
}

// keysOf returns the keys of a span one by one.
func keysOf(ctx context.Context, p Past, span backend.Span) iter.Seq2[*backend.Row, error] {
	return func(yield func(*backend.Row, error) bool) {
		err := p.Keys(ctx, span, func(row *backend.Row) bool { return yield(row, nil) })
		if err != nil {
			yield(nil, err)
		}
	}
}

// span merges the keys of then and now.
func (c *Comparison) span(ctx context.Context, span backend.Span) error {
	nextThen, stopThen := iter.Pull2(keysOf(ctx, c.Then, span))
	defer stopThen()
	nextNow, stopNow := iter.Pull2(keysOf(ctx, c.Now, span))
	defer stopNow()
	var then, now *backend.Row
	for {
		var err error
		if then == nil {
			if then, err, _ = nextThen(); err != nil {
				return err
			}
		}
		if now == nil {
			if now, err, _ = nextNow(); err != nil {
				return err
			}
		}
		d := &Difference{}
		switch {
		case then == nil && now == nil:
			return nil
		case now == nil || then != nil && bytes.Compare(then.Key, now.Key) < 0:
			d.Then, then = then, nil
		case then == nil || bytes.Compare(then.Key, now.Key) > 0:
			d.Now, now = now, nil
		default:
			d.Then, d.Now, then, now = then, now, nil, nil
		}
		if err := c.add(ctx, d); err != nil {
			return err
		}
	}
}

// add takes the rows of a key, still without values.
func (c *Comparison) add(ctx context.Context, d *Difference) error {
	if d.Then != nil {
		c.counts.Then++
		d.Key = string(d.Then.Key)
	}
	if d.Now != nil {
		c.counts.Now++
		d.Key = string(d.Now.Key)
	}
	if !c.Values && d.Then != nil && d.Now != nil && d.Then.ModRevision == d.Now.ModRevision {
		c.counts.Equal++
		return nil
	}
	if c.pending = append(c.pending, d); len(c.pending) < together {
		return nil
	}
	return c.flush(ctx)
}

// flush reads the values of the keys that are waiting and passes on those that differ.
func (c *Comparison) flush(ctx context.Context) error {
	all := c.pending
	c.pending = nil
	if err := fill(ctx, c.Then, all, func(d *Difference) **backend.Row { return &d.Then }); err != nil {
		return err
	}
	if err := fill(ctx, c.Now, all, func(d *Difference) **backend.Row { return &d.Now }); err != nil {
		return err
	}
	for _, d := range all {
		if err := c.lease(ctx, d); err != nil {
			return err
		}
		if d.Then != nil && d.Now != nil && bytes.Equal(d.Then.Value, d.Now.Value) && d.Lease == d.Now.Lease {
			c.counts.Equal++
			continue
		}
		if err := c.f(d); err != nil {
			return err
		}
	}
	return nil
}

// fill replaces the rows that field selects by the same with values.
func fill(ctx context.Context, p Past, all []*Difference, field func(*Difference) **backend.Row) error {
	var keys []string
	var places []**backend.Row
	for _, d := range all {
		if place := field(d); *place != nil {
			keys, places = append(keys, d.Key), append(places, place)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := p.Rows(ctx, keys)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if row == nil || row.ModRevision != (*places[i]).ModRevision {
			return fmt.Errorf("read %q: the store lost history in the meantime, as after a failover: run the command "+
				"again", keys[i])
		}
		*places[i] = row
	}
	return nil
}

// lease decides which lease the key gets.
func (c *Comparison) lease(ctx context.Context, d *Difference) error {
	if d.Then == nil || d.Then.Lease == 0 {
		return nil
	}
	if d.Now != nil && d.Now.Lease == d.Then.Lease {
		d.Lease = d.Now.Lease
		return nil
	}
	lives, err := c.Lives(ctx, d.Then.Lease)
	switch {
	case err != nil:
		return fmt.Errorf("ask for lease %016x: %w", uint64(d.Then.Lease), err)
	case lives:
		d.Lease = d.Then.Lease
		return nil
	}
	d.Ended = d.Then.Lease
	if d.Now != nil {
		d.Lease = d.Now.Lease
	}
	return nil
}
