package backup

import (
	"context"
	"fmt"
	"time"
)

// Prune deletes the chains, of all stores, that are not needed to restore a point after a time. The chain with the
// newest file of a store stays, however old. It returns what it has deleted. Errors: those of the bucket.
func (r *Repository) Prune(ctx context.Context, after time.Time) ([]Chain, error) {
	return r.prune(ctx, after, func(string) bool { return true })
}

func (r *Repository) prune(ctx context.Context, after time.Time, mine func(chain string) bool) (
	removed []Chain, err error,
) {
	all, err := r.Chains(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		c := &all[i]
		if !mine(c.Name) || !succeeded(all[i+1:], c, after) {
			continue
		}
		if err := r.remove(ctx, c); err != nil {
			return removed, err
		}
		removed = append(removed, *c)
	}
	if err := r.clean(mine); err != nil {
		return removed, fmt.Errorf("remove partial files: %w", err)
	}
	return removed, nil
}

// succeeded reports whether another chain of the same store has every point after a time that c has.
func succeeded(later []Chain, c *Chain, after time.Time) bool {
	for i := range later {
		l := &later[i]
		if l.clusterID() == c.clusterID() && !l.Full().At.After(after) && !l.Last().At.Before(c.Last().At) {
			return true
		}
	}
	return false
}
