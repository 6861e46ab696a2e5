package store

import (
	"context"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// rows returns the rows of an epoch's items, and fetches the values that are not in memory.
func (s *Store) rows(ctx context.Context, items []*index.Item, epoch int64, req *RangeRequest) ([]*Row, error) {
	if len(items) > 1 { // a get spares the look-up
		reservationOf(ctx).addRows(int64(len(items)))
	}
	rows, err := s.firstRows(ctx, items[:min(len(items), heldRows)], epoch, req, heldBytes)
	if err == nil {
		rows = slices.Grow(rows, len(items)-len(rows))
	}
	for err == nil && len(rows) < len(items) {
		rest := items[len(rows):]
		var more []*Row
		more, err = s.firstRows(ctx, rest[:min(len(rest), heldRows)], epoch, req, heldBytes)
		rows = append(rows, more...)
	}
	return rows, err
}

// firstRows is rows for the first items, up to the one at which the total size of the rows reaches bytes; 0 means no
// bound.
func (s *Store) firstRows(
	ctx context.Context, items []*index.Item, epoch int64, req *RangeRequest, bytes int64,
) ([]*Row, error) {
	out := make([]*Row, len(items))
	if req.KeysOnly {
		for i, it := range items {
			out[i] = req.keyOnly(&it.Row)
		}
		return cut(out, bytes), nil
	}
	cold := false
	for _, it := range items {
		cold = cold || !it.Cached()
	}
	missing := 0
	if cold {
		missing = s.index.Warm(items, epoch)
	}
	for i, it := range items {
		if it.Cached() {
			it.Touch()
			out[i] = &it.Row
		}
	}
	s.cacheHits.add(len(items) - missing)
	if missing == 0 {
		if out = cut(out, bytes); len(items) > 1 {
			return out, reservationOf(ctx).read(len(out), sizeOf(out), 0)
		}
		return out, nil
	}
	fetched, err := s.fetch(ctx, items, epoch, missing, bytes)
	if err != nil {
		return nil, err
	}
	s.cacheMisses.add(len(fetched))
	read := int64(0)
	for i := range out {
		if out[i] != nil {
			continue
		}
		if len(fetched) == 0 {
			out = out[:i]
			break
		}
		read += fetched[0].Size()
		out[i], fetched = &fetched[0].Row, fetched[1:]
	}
	out = cut(out, bytes)
	return out, reservationOf(ctx).read(len(out), sizeOf(out), read)
}

// fetch reads the values that are not cached from the database, and caches them while the cache has space. It ends with
// the row at which their total size reaches bytes; 0 means no bound.
func (s *Store) fetch(
	ctx context.Context, items []*index.Item, epoch int64, missing int, bytes int64,
) ([]*index.Item, error) {
	returnPermit(ctx)
	if err := s.reserveRead(ctx, missing, bytes); err != nil {
		return nil, err
	}
	ids, cold := make([]backend.RowID, 0, missing), make([]*index.Item, 0, missing)
	for _, it := range items {
		if !it.Cached() {
			ids, cold = append(ids, it.ID()), append(cold, it)
		}
	}
	rows, clock, err := s.fetcher.rows(ctx, ids, bytes)
	if err != nil {
		return nil, err
	}
	if clock.Epoch != epoch {
		return nil, backend.ErrOtherEpoch // another row may have the same id
	}
	fetched := make([]*index.Item, len(rows))
	for i := range rows {
		if !cold[i].Is(&rows[i]) {
			return nil, backend.ErrOtherEpoch // which this process has not detected yet
		}
		fetched[i] = index.NewItem(rows[i])
	}
	s.index.CacheValues(fetched, epoch)
	return fetched, nil
}

// keyOnly returns the row as keys_only shows it: like etcd, it leaves out the lease, too.
func (r *RangeRequest) keyOnly(row *Row) *Row {
	k := *row
	if k.Value = nil; !r.KeepLease {
		k.Lease = 0
	}
	return &k
}
