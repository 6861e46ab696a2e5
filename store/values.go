package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

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
	rows, err := s.fetcher.rows(ctx, ids)
	if err != nil {
		return nil, err
	}
	fetched := make([]*item, len(rows))
	for i := range rows {
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
