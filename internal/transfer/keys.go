package transfer

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/sqlstore/sqlstore/backend"
)

// Lister is a [backend.Source] that can also tell what exists now, independently of its rows. An import compares that
// with the target key by key.
type Lister interface {
	// Newest calls f with the newest row of each live key, in no particular order. It may leave out the version.
	Newest(ctx context.Context, f func(*backend.Row) error) error
}

// compareKeys compares what a source lists with what the target lists.
func (l *loader) compareKeys(ctx context.Context, from Lister) error {
	seed := maphash.MakeSeed()
	left := make(map[keyHash]uint64, len(l.links.newest))
	span := backend.Span{Start: []byte{}, End: []byte{}}
	for {
		rows, _, err := l.b.Range(ctx, backend.RangeQuery{
			Span: span, Revision: l.at, Limit: batchRows, Bytes: batchBytes,
		})
		if err != nil {
			return err
		}
		for i := range rows {
			left[l.links.hash(rows[i].Key)] = summary(seed, &rows[i])
		}
		if len(rows) == 0 {
			break
		}
		span.Start = append(rows[len(rows)-1].Key, 0)
	}
	err := from.Newest(ctx, func(r *backend.Row) error {
		key := l.links.hash(r.Key)
		if sum, ok := left[key]; !ok || sum != summary(seed, r) {
			return fmt.Errorf("%w: in the key %q of revision %d", ErrDiffers, r.Key[:min(len(r.Key), 200)],
				r.ModRevision)
		}
		delete(left, key)
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%w: keys of the target that the source does not list: %d", ErrDiffers, len(left))
	}
	return err
}

// summary is a hash of what a client sees of a row, without its version.
func summary(seed maphash.Seed, r *backend.Row) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, n := range []int64{r.ModRevision, r.CreateRevision, r.Lease} {
		maphash.WriteComparable(&h, n)
	}
	_, _ = h.Write(r.Value)
	return h.Sum64()
}
