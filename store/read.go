package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// walkLocked is how many items a read may pass under the index's lock before it takes a snapshot instead.
	walkLocked = 256
	// readChunk is how many rows one statement reads from the database.
	readChunk = 1000
)

// view is where a read at one revision gets its rows from: a snapshot of the index, or the database when it has none.
type view struct {
	rev     int64
	current int64 // the store's revision when the view was made
	tree    *tree
}

// pin resolves the revision asked for. Errors: [ErrCompacted], [ErrFutureRevision].
func (s *Store) pin(revision int64) (rev, current int64, err error) {
	x := s.index
	x.mu.RLock()
	current, compacted := x.rev, x.compacted
	x.mu.RUnlock()
	if revision <= 0 {
		return current, current, nil
	}
	return revision, current, backend.Clock{Revision: current, Compacted: compacted}.Check(revision)
}

// Range returns the rows of req's range at its revision. The answer is a snapshot of that revision, whatever is written
// meanwhile. Errors: [ErrCompacted], [ErrFutureRevision], those of the backend.
func (s *Store) Range(ctx context.Context, req *RangeRequest) (*RangeResult, error) {
	for {
		compacted := s.Compacted()
		res, err := s.read(ctx, req)
		if req.Revision <= 0 && errors.Is(err, ErrCompacted) && s.Compacted() != compacted {
			continue // written, compacted and removed while we looked: the current revision is a newer one
		}
		return res, err
	}
}

func (s *Store) read(ctx context.Context, req *RangeRequest) (*RangeResult, error) {
	if len(req.End) == 0 {
		if res, ok, err := s.get(ctx, req); ok || err != nil {
			return res, err
		}
	}
	sp := makeSpan(req.Key, req.End)
	rev, current, err := s.pin(req.Revision)
	if err != nil {
		return nil, err
	}
	if sp.empty {
		return &RangeResult{Revision: current}, nil
	}
	if rev == current && req.plain() {
		if res, ok, err := s.small(ctx, req, sp, rev); ok || err != nil {
			return res, err
		}
	}
	v := view{rev: rev, current: current, tree: s.index.at(rev)}
	if req.plain() {
		return s.list(ctx, req, sp, v)
	}
	return s.sorted(ctx, req, sp, v)
}

// plain says that the rows are wanted in key order, without filters.
func (r *RangeRequest) plain() bool {
	return r.Target == SortKey && r.Order != SortDescend && !r.filtered()
}

func (r *RangeRequest) filtered() bool {
	return r.MinModRev != 0 || r.MaxModRev != 0 || r.MinCreateRev != 0 || r.MaxCreateRev != 0
}

// get serves one key from the index alone; ok is false when that cannot be done.
func (s *Store) get(ctx context.Context, req *RangeRequest) (_ *RangeResult, ok bool, _ error) {
	if req.filtered() || req.Target == SortValue {
		return nil, false, nil
	}
	x := s.index
	x.mu.RLock()
	current := x.rev
	if req.Revision > 0 {
		if err := (backend.Clock{Revision: current, Compacted: x.compacted}).Check(req.Revision); err != nil {
			x.mu.RUnlock()
			return nil, false, err
		}
	}
	it, known := x.lookup(req.Key)
	x.mu.RUnlock()
	switch {
	case !known:
		return nil, false, nil
	case it == nil:
		if req.Revision > 0 && req.Revision < current {
			return nil, false, nil
		}
		return &RangeResult{Revision: current}, true, nil
	case req.Revision > 0 && it.ModRevision > req.Revision:
		return nil, false, nil
	}
	res := &RangeResult{Count: 1, Revision: current}
	if req.CountOnly {
		return res, true, nil
	}
	rows, err := s.rows(ctx, []*item{it}, req)
	res.Rows = rows
	return res, true, err
}

// small serves a range that turns out to hold few keys, under the index's lock.
func (s *Store) small(ctx context.Context, req *RangeRequest, sp span, rev int64) (_ *RangeResult, ok bool, _ error) {
	x := s.index
	x.mu.RLock()
	if x.rev != rev || !x.complete || !req.CountOnly && x.taken(rev) != nil {
		x.mu.RUnlock()
		return nil, false, nil // a snapshot of this revision was made for a longer list: this may be its next page
	}
	res := &RangeResult{Revision: rev}
	if req.CountOnly {
		res.Count = countSpan(x.tree, sp)
		x.mu.RUnlock()
		return res, true, nil
	}
	items, more := walk(x.tree, sp, walkLocked)
	x.mu.RUnlock()
	if more {
		return nil, false, nil
	}
	res.Count = int64(len(items))
	if req.Limit > 0 && res.Count > req.Limit {
		items, res.More = items[:req.Limit], true
	}
	rows, err := s.rows(ctx, items, req)
	res.Rows = rows
	return res, true, err
}

// walk collects up to limit items of the span.
func walk(t *tree, sp span, limit int) (items []*item, more bool) {
	t.Ascend(sp.start, func(key string, it *item) bool {
		if !sp.open && key >= sp.end {
			return false
		}
		if len(items) == limit {
			more = true
			return false
		}
		if items == nil {
			items = make([]*item, 0, min(limit, 512))
		}
		items = append(items, it)
		return true
	})
	return items, more
}

// list serves a range in key order.
func (s *Store) list(ctx context.Context, req *RangeRequest, sp span, v view) (*RangeResult, error) {
	res := &RangeResult{Revision: v.current}
	var err error
	limit := req.Limit
	if req.CountOnly {
		res.Count, err = s.count(ctx, sp, v)
		return res, err
	}
	if limit <= 0 {
		limit = -1
	}
	var next span
	next, res.More, err = s.scan(ctx, sp, v, limit, readChunk, req, func(rows []*Row) error {
		if res.Rows == nil {
			res.Rows = rows
		} else {
			res.Rows = append(res.Rows, rows...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Count = int64(len(res.Rows))
	if res.More {
		res.Count, err = s.countPage(ctx, sp, v, next, res.Count)
	}
	return res, err
}

// scan hands the rows of the span at v's revision to f in chunks, at most limit in all (-1: no limit), and says what is
// left of the span.
func (s *Store) scan(ctx context.Context, sp span, v view, limit int64, chunk int, req *RangeRequest, f func([]*Row) error) (span, bool, error) {
	for {
		n := chunk
		if limit >= 0 {
			n = int(min(int64(n), limit))
		}
		rows, more, err := s.chunk(ctx, sp, v, n, req)
		if err != nil {
			return sp, false, err
		}
		if len(rows) > 0 {
			if err := f(rows); err != nil {
				return sp, false, err
			}
			sp = sp.from(string(rows[len(rows)-1].Key) + "\x00")
		}
		if limit >= 0 {
			limit -= int64(len(rows))
		}
		if !more || limit == 0 {
			return sp, more, nil
		}
		chunk = nextChunk(chunk, rows)
	}
}

// chunk reads the first n rows of the span at v's revision.
func (s *Store) chunk(ctx context.Context, sp span, v view, n int, req *RangeRequest) (rows []*Row, more bool, err error) {
	if v.tree != nil {
		items, more := walk(v.tree, sp, n)
		rows, err = s.rows(ctx, items, req)
		return rows, more, err
	}
	found, err := s.fromDatabase(ctx, sp, v.rev, n+1, req.KeysOnly || req.CountOnly)
	if err != nil {
		return nil, false, err
	}
	if more = len(found) > n; more {
		found = found[:n]
	}
	rows = make([]*Row, len(found))
	for i := range found {
		rows[i] = &found[i]
		if req.KeysOnly {
			rows[i] = keyOnly(rows[i])
		}
	}
	return rows, more, nil
}

func (s *Store) fromDatabase(ctx context.Context, sp span, rev int64, limit int, keysOnly bool) ([]Row, error) {
	rows, clock, err := s.backend.Range(ctx, backend.RangeQuery{Span: sp.backend(), Revision: rev, Limit: limit, KeysOnly: keysOnly})
	if err == nil {
		err = clock.Check(rev)
	}
	if err != nil {
		return nil, fmt.Errorf("read at revision %d: %w", rev, err)
	}
	return rows, nil
}

// rows turns items into rows, fetching the values that are not in memory.
func (s *Store) rows(ctx context.Context, items []*item, req *RangeRequest) ([]*Row, error) {
	out := make([]*Row, len(items))
	if req.KeysOnly {
		for i, it := range items {
			out[i] = keyOnly(&it.Row)
		}
		return out, nil
	}
	cold := false
	for _, it := range items {
		cold = cold || !it.resident
	}
	missing := 0
	if cold {
		missing = s.index.warm(items)
	}
	for i, it := range items {
		if it.resident {
			it.touch()
			out[i] = &it.Row
		}
	}
	if missing == 0 {
		return out, nil
	}
	fetched, err := s.fetch(ctx, items, missing)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i] == nil {
			out[i], fetched = &fetched[0].Row, fetched[1:]
		}
	}
	return out, nil
}

// fetch reads the values that are not resident from the database and keeps them while there is room.
func (s *Store) fetch(ctx context.Context, items []*item, missing int) ([]*item, error) {
	ids := make([]backend.RowID, 0, missing)
	for _, it := range items {
		if !it.resident {
			ids = append(ids, it.ID())
		}
	}
	rows, _, err := s.backend.Rows(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(ids), err)
	}
	fetched := make([]*item, len(rows))
	for i := range rows {
		if rows[i].Key == nil {
			return nil, fmt.Errorf("row of revision %d is gone: %w", ids[i].ModRevision, ErrCompacted)
		}
		fetched[i] = newItem(rows[i])
	}
	s.index.keep(fetched)
	return fetched, nil
}

// keyOnly is the row as keys_only shows it: etcd leaves the lease out, too.
func keyOnly(r *Row) *Row {
	k := *r
	k.Value, k.Lease = nil, 0
	return &k
}

// sorted serves a range with filters or an order of its own: it looks at every row, but fetches only the values it returns.
func (s *Store) sorted(ctx context.Context, req *RangeRequest, sp span, v view) (*RangeResult, error) {
	byValue := req.Target == SortValue
	items, err := s.metas(ctx, sp, v, byValue)
	if err != nil {
		return nil, err
	}
	res := &RangeResult{Revision: v.current, Count: int64(len(items))}
	if req.CountOnly {
		return res, nil
	}
	items = slices.DeleteFunc(items, func(it *item) bool { return req.drops(&it.Row) })
	if byValue {
		if items, err = s.resident(ctx, items); err != nil {
			return nil, err
		}
	}
	items = req.first(items)
	req.sort(items)
	if req.Limit > 0 && int64(len(items)) > req.Limit {
		items, res.More = items[:req.Limit], true
	}
	res.Rows, err = s.shape(ctx, items, req)
	return res, err
}

// shape is rows for a sorted list: etcd fetches whole rows to sort them by value, and keys_only then drops the value alone.
func (s *Store) shape(ctx context.Context, items []*item, req *RangeRequest) ([]*Row, error) {
	if !req.KeysOnly || req.Target != SortValue {
		return s.rows(ctx, items, req)
	}
	out := make([]*Row, len(items))
	for i, it := range items {
		r := it.Row
		r.Value = nil
		out[i] = &r
	}
	return out, nil
}

// metas returns all items of the span.
func (s *Store) metas(ctx context.Context, sp span, v view, values bool) ([]*item, error) {
	if v.tree != nil {
		items, _ := walk(v.tree, sp, v.tree.Len())
		return items, nil
	}
	var items []*item
	for {
		rows, err := s.fromDatabase(ctx, sp, v.rev, readChunk, !values)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			items = append(items, &item{Row: rows[i], resident: values, slot: -1})
		}
		if len(rows) < readChunk {
			return items, nil
		}
		sp = sp.from(string(rows[len(rows)-1].Key) + "\x00")
	}
}

// resident returns the items with all values in memory.
func (s *Store) resident(ctx context.Context, items []*item) ([]*item, error) {
	rows, err := s.rows(ctx, items, &RangeRequest{})
	if err != nil {
		return nil, err
	}
	out := make([]*item, len(rows))
	for i, r := range rows {
		out[i] = &item{Row: *r, resident: true, slot: -1}
	}
	return out, nil
}

func (r *RangeRequest) drops(row *Row) bool {
	return r.MinModRev != 0 && row.ModRevision < r.MinModRev ||
		r.MaxModRev != 0 && row.ModRevision > r.MaxModRev ||
		r.MinCreateRev != 0 && row.CreateRevision < r.MinCreateRev ||
		r.MaxCreateRev != 0 && row.CreateRevision > r.MaxCreateRev
}

// first cuts a range that names a target but no order: etcd applies its limit before it sorts, and reads one more row to know
// whether there are more.
func (r *RangeRequest) first(items []*item) []*item {
	if r.Order == SortNone && !r.filtered() && r.Limit > 0 && int64(len(items))-1 > r.Limit {
		return items[:r.Limit+1]
	}
	return items
}

func (r *RangeRequest) sort(items []*item) {
	order := r.Order
	if order == SortNone && r.Target != SortKey {
		order = SortAscend
	}
	if order == SortNone || order == SortAscend && r.Target == SortKey {
		return
	}
	slices.SortStableFunc(items, func(a, b *item) int {
		c := compareBy(r.Target, &a.Row, &b.Row)
		if order == SortDescend {
			return -c
		}
		return c
	})
}
