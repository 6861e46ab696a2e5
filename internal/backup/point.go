package backup

import (
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Point says what to restore.
type Point struct {
	// Chain is the chain to restore, "" for the newest one that covers the point. Where chains of several stores do, it
	// has to be given.
	Chain string
	// Revision or Time is the point. The newest one is restored if both are zero.
	Revision int64
	Time     time.Time
	// Keep leaves all revisions as they were, with the history. Otherwise the restored store has only the keys of the
	// point, its revision is lifted by Bump above every revision in the bucket, and what is older is compacted. So
	// clients of the lost store list again, and never see a revision twice.
	Keep bool
	// Spans are the keys to restore, all if it is nil. Keep must not be set with it.
	Spans []backend.Span
}

// has reports whether a key is to be restored.
func (p *Point) has(key []byte) bool {
	return p.Spans == nil || slices.ContainsFunc(p.Spans, func(s backend.Span) bool { return s.Contains(key) })
}

// choose returns the chain that covers the point: the one with the newest file for the newest state, and otherwise the
// one that begins last.
func (p *Point) choose(all []Chain) (*Chain, error) {
	var chosen *Chain
	for i := range slices.Backward(all) {
		c := &all[i]
		switch {
		case p.Chain != "" && c.Name == p.Chain:
			return c, nil
		case p.Chain != "" || !p.in(c):
		case chosen == nil, p.newest() && c.saved().At.After(chosen.saved().At):
			chosen = c
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%w: there are no backups at this URL", ErrNone)
	case p.Chain != "":
		return nil, fmt.Errorf("%w: there is no chain %q: list them with 'sqlstore backup list'", ErrNone, p.Chain)
	case chosen != nil:
		return chosen, p.onlyIn(chosen, all)
	}
	for i := range all {
		c := &all[i]
		if p.Revision != 0 && c.Full().Revision > p.Revision || !p.Time.IsZero() && c.Full().At.After(p.Time) {
			return c, p.onlyIn(c, all) // its full backup has the history that was not compacted
		}
	}
	// The point is behind all that can be reached.
	last := all[0].Last()
	for i := range all {
		c := &all[i]
		if from, _ := c.Missing(); from != 0 && p.upTo(c.saved()) {
			return c, nil // which says what is missing
		}
		if end := c.Last(); end.At.After(last.At) {
			last = end
		}
	}
	return nil, fmt.Errorf("%w: the last one was saved at %s, at revision %d, and %s is later; without a revision or "+
		"time, the newest state is restored", ErrNone, last.At.Format(time.RFC3339Nano), last.Revision, p)
}

// String names the point.
func (p *Point) String() string {
	switch {
	case p.Revision != 0:
		return fmt.Sprintf("revision %d", p.Revision)
	case !p.Time.IsZero():
		return p.Time.UTC().Format(time.RFC3339Nano)
	}
	return "the newest state"
}

// upTo reports whether the point is not after a file.
func (p *Point) upTo(f File) bool { return p.Revision <= f.Revision && !p.Time.After(f.At) }

func (p *Point) newest() bool { return p.Revision == 0 && p.Time.IsZero() }

// in reports whether the point lies between the ends of a chain.
func (p *Point) in(c *Chain) bool {
	first, last := c.Full(), c.Last()
	switch {
	case p.Revision != 0:
		return first.Revision <= p.Revision && p.Revision <= last.Revision
	case !p.Time.IsZero():
		return !first.At.After(p.Time) && !p.Time.After(last.At)
	}
	return true
}

// onlyIn returns [ErrSeveral] if another store has a chain for the point, too. For the newest state, that is one which
// was saved while c's store was: a store that was restored from another follows it. A full backup of a snapshot, whose
// store is not known, is taken only if nothing else is as new.
func (p *Point) onlyIn(c *Chain, all []Chain) error {
	var began time.Time
	for i := range slices.Backward(all) {
		if all[i].clusterID() == c.clusterID() {
			began = all[i].Full().At
		}
	}
	for i := range all {
		o := &all[i]
		other := o.clusterID() != 0 && o.clusterID() != c.clusterID()
		if other && p.in(o) && !(p.newest() && o.Last().At.Before(began)) {
			return fmt.Errorf("%w: name a chain of 'sqlstore backup list', for example %s or %s", ErrSeveral, c.Name,
				o.Name)
		}
	}
	return nil
}
