package store

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// sorted serves a range that has filters or a sort order. It scans every row, but fetches only the values that it
// returns.
func (s *Store) sorted(ctx context.Context, req *RangeRequest, sp index.Span, v view) (*RangeResult, error) {
	res, items, err := s.ordered(ctx, req, sp, v)
	if err != nil || req.CountOnly {
		return res, err
	}
	res.Rows, err = s.shape(ctx, items, v.epoch, req)
	return res, err
}

// ordered is sorted without the rows: it returns their items instead.
func (s *Store) ordered(
	ctx context.Context, req *RangeRequest, sp index.Span, v view,
) (*RangeResult, []*index.Item, error) {
	items, err := s.metas(ctx, sp, v, req.Target == SortValue)
	if err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	res := &RangeResult{Revision: v.current, Count: int64(len(items))}
	if req.CountOnly {
		return res, nil, nil
	}
	items, res.More, err = s.selected(ctx, items, v.epoch, req)
	return res, items, err
}

// selected returns the items that req wants, in req's order; items must be all those of req's range, in one epoch. more
// reports whether req's limit cut some off. It reuses the slice.
func (s *Store) selected(
	ctx context.Context, items []*index.Item, epoch int64, req *RangeRequest,
) (_ []*index.Item, more bool, err error) {
	if req.filtered() {
		items = slices.DeleteFunc(items, func(it *index.Item) bool { return req.drops(&it.Row) })
	}
	items = req.first(items)
	if req.Target == SortValue {
		if items, err = s.withValues(ctx, items, epoch); err != nil {
			return nil, false, err
		}
	}
	req.sort(items)
	if req.Limit > 0 && int64(len(items)) > req.Limit {
		return items[:req.Limit], true, nil
	}
	return items, false, nil
}

// sortedStream is sorted in chunks. However slowly a client reads, only one chunk of values is in memory.
func (s *Store) sortedStream(
	ctx context.Context, req *RangeRequest, sp index.Span, v view, send func(rows []*Row, last bool) error,
) (*RangeResult, error) {
	r := s.reserving(ctx, 1)
	res, items, err := s.orderedWithPermit(r.with(ctx), req, sp, v)
	for err != nil {
		if err = r.retry(ctx, err); err != nil {
			return nil, err
		}
		res, items, err = s.orderedWithPermit(r.with(ctx), req, sp, v)
	}
	r.release() // the items have no values
	res.Epoch = v.epoch
	for len(items) > 0 {
		err := s.sendPart(ctx, func(ctx context.Context) (rows []*Row, last bool, err error) {
			part := slices.Clone(items[:min(len(items), readChunk)]) // the clones get the values
			permit, err := s.admission.acquireFor(ctx, len(part))
			if err != nil {
				return nil, false, err
			}
			defer permit.End()
			rows, err = s.shapeFirst(permit.with(ctx), part, v.epoch, req, chunkBytes)
			items = items[len(rows):]
			return rows, len(items) == 0, err
		}, send)
		if err != nil {
			return nil, err
		}
	}
	return res, nil
}

// orderedWithPermit is ordered, with a permit of its own if the span is long. The items have no values.
func (s *Store) orderedWithPermit(
	ctx context.Context, req *RangeRequest, sp index.Span, v view,
) (*RangeResult, []*index.Item, error) {
	if n, ok := s.countInMemory(sp, v); ok {
		permit, err := s.admission.acquireFor(ctx, int(n))
		if err != nil {
			return nil, nil, err
		}
		defer permit.End()
		ctx = permit.with(ctx)
	}
	res, items, err := s.ordered(ctx, req, sp, v)
	for i, it := range items {
		items[i] = index.NewBareItem(it.Row)
	}
	return res, items, err
}

// shape is rows for a sorted list. To sort by value etcd fetches whole rows, and keys_only then drops only the value.
func (s *Store) shape(ctx context.Context, items []*index.Item, epoch int64, req *RangeRequest) ([]*Row, error) {
	if !req.KeysOnly || req.Target != SortValue {
		return s.rows(ctx, items, epoch, req)
	}
	return s.shapeFirst(ctx, items, epoch, req, 0)
}

// shapeFirst is shape for the first items, up to the one at which the total size of the rows reaches bytes; 0 means no
// bound.
func (s *Store) shapeFirst(
	ctx context.Context, items []*index.Item, epoch int64, req *RangeRequest, bytes int64,
) ([]*Row, error) {
	if !req.KeysOnly || req.Target != SortValue {
		return s.firstRows(ctx, items, epoch, req, bytes)
	}
	out := make([]*Row, len(items))
	for i, it := range items {
		r := it.Row
		r.Value = nil
		out[i] = &r
	}
	return cut(out, bytes), nil
}

// metas returns all items of the span.
func (s *Store) metas(ctx context.Context, sp index.Span, v view, values bool) ([]*index.Item, error) {
	if items, _, ok := s.walkInMemory(ctx, sp, v, math.MaxInt); ok {
		return items, nil
	}
	if values {
		defer reservationOf(ctx).unsent()()
	}
	var items []*index.Item
	for {
		rows, more, err := s.fromDatabase(ctx, sp, v, chunkSize{readChunk, heldBytes}, !values)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if values {
				items = append(items, index.NewItem(rows[i]))
			} else {
				items = append(items, index.NewBareItem(rows[i]))
			}
		}
		if !more {
			return items, nil
		}
		sp = sp.From(string(rows[len(rows)-1].Key) + "\x00")
	}
}

// withValues returns the items with all their values in memory.
func (s *Store) withValues(ctx context.Context, items []*index.Item, epoch int64) ([]*index.Item, error) {
	defer reservationOf(ctx).unsent()()
	rows, err := s.rows(ctx, items, epoch, &RangeRequest{})
	if err != nil {
		return nil, err
	}
	out := make([]*index.Item, len(rows))
	for i, r := range rows {
		out[i] = index.NewItem(*r)
	}
	return out, nil
}

// plain reports whether r wants the rows in key order, without filters.
func (r *RangeRequest) plain() bool {
	return r.Target == SortKey && r.Order != SortDescend && !r.filtered()
}

func (r *RangeRequest) filtered() bool {
	return r.MinModRev != 0 || r.MaxModRev != 0 || r.MinCreateRev != 0 || r.MaxCreateRev != 0
}

func (r *RangeRequest) drops(row *Row) bool {
	return r.MinModRev != 0 && row.ModRevision < r.MinModRev ||
		r.MaxModRev != 0 && row.ModRevision > r.MaxModRev ||
		r.MinCreateRev != 0 && row.CreateRevision < r.MinCreateRev ||
		r.MaxCreateRev != 0 && row.CreateRevision > r.MaxCreateRev
}

// first cuts a range that names a sort target but no order: etcd applies the limit before it sorts, and reads one more
// row to find out whether more remain.
func (r *RangeRequest) first(items []*index.Item) []*index.Item {
	if r.Order == SortNone && !r.filtered() && r.Limit > 0 && int64(len(items))-1 > r.Limit {
		return items[:r.Limit+1]
	}
	return items
}

func (r *RangeRequest) sort(items []*index.Item) {
	order := r.Order
	if order == SortNone && r.Target != SortKey {
		order = SortAscend
	}
	if order == SortNone || order == SortAscend && r.Target == SortKey {
		return
	}
	slices.SortStableFunc(items, func(a, b *index.Item) int {
		c := compareBy(r.Target, &a.Row, &b.Row)
		if order == SortDescend {
			return -c
		}
		return c
	})
}

func compareBy(t SortTarget, a, b *Row) int {
	switch t {
	case SortVersion:
		return cmp.Compare(a.Version, b.Version)
	case SortCreate:
		return cmp.Compare(a.CreateRevision, b.CreateRevision)
	case SortMod:
		return cmp.Compare(a.ModRevision, b.ModRevision)
	case SortValue:
		return bytes.Compare(a.Value, b.Value)
	default:
		return bytes.Compare(a.Key, b.Key)
	}
}
