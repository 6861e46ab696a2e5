package store

import (
	"context"
	"errors"
	"math"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// sharedPart is the part of the memory for the results of gets that one statement for several of them may fill, and
// that the gets which wait for one may reserve at first: others then run beside statements that hang.
const sharedPart = fetchOvertaken + 3

// errLargeRows is the error of a get that has to reserve memory for a large row, and then starts over.
var errLargeRows = errors.New("memory for a large row is not reserved")

type getMemoryKey struct{}

// getMemory is what a get has reserved before it reads.
type getMemory struct {
	row    int64 // how large its row may be, in bytes
	copies int64 // see RangeRequest.Copies
}

func getMemoryOf(ctx context.Context) getMemory {
	m, _ := ctx.Value(getMemoryKey{}).(getMemory)
	return m
}

// smallGet reports whether ctx belongs to a get that has reserved memory for a small row only.
func smallGet(ctx context.Context) bool {
	row := getMemoryOf(ctx).row
	return row > 0 && row < largestRow
}

// weight returns what a get counts for in a statement for several gets: 1 for a small row, more if it has reserved
// more. So a statement that hangs holds only a part of the gets' memory.
func weight(ctx context.Context) int {
	m := getMemoryOf(ctx)
	return int(max(1, (m.row*m.copies+smallResult-1)/smallResult))
}

// readKey serves a request for one key that the index's current rows do not answer. If the value has to be fetched, it
// reserves memory first. Gets have memory and a queue of their own: lists whose clients are slow do not delay them.
func (s *Store) readKey(ctx context.Context, req *RangeRequest, sp index.Span) (*RangeResult, error) {
	if req.CountOnly || req.KeysOnly || backend.IsUrgent(ctx) || reservationOf(ctx) != nil {
		return s.fetchKey(ctx, req, sp)
	}
	if s.answers(ctx, req, sp) {
		return s.ranged(ctx, req, sp)
	}
	copies := max(1, req.Copies)
	for bytes := s.expectedGet(); ; bytes = largestRow {
		account, err := s.gets.reserve(ctx, bytes)
		if err != nil {
			return nil, err
		}
		account.resize(bytes*copies, true)
		reading := context.WithValue(ctx, getMemoryKey{}, getMemory{row: bytes, copies: copies})
		res, err := s.fetchKey(reading, req, sp)
		if err == nil {
			res.Permit, err = account.encodeGet(reading, sizeOf(res.Rows)*copies, req.KeepPermit)
		}
		if err == nil {
			return res, nil
		}
		if account.Release(math.MaxInt64); !errors.Is(err, errLargeRows) {
			return nil, err
		}
	}
}

// answers reports whether memory has what a request for one key reads if the index's current rows alone do not answer
// it.
func (s *Store) answers(ctx context.Context, req *RangeRequest, sp index.Span) bool {
	if req.Revision <= 0 && !req.filtered() && req.Target != SortValue && len(req.End) == 0 {
		return false
	}
	v, err := s.viewAt(req.Revision)
	if err != nil {
		return true // the read fails, too
	}
	items, _, ok := s.walkInMemory(ctx, sp, v, 1)
	return ok && (len(items) == 0 || items[0].Cached())
}

// fetchKey serves a request for one key, and fetches the value if it must. Errors: [errLargeRows].
func (s *Store) fetchKey(ctx context.Context, req *RangeRequest, sp index.Span) (*RangeResult, error) {
	if len(req.End) == 0 {
		if res, ok, err := s.get(ctx, req, true); ok || err != nil {
			return res, err
		}
	}
	if smallGet(ctx) { // each such read has a statement of its own, which nothing else bounds
		return nil, errLargeRows
	}
	return s.ranged(ctx, req, sp)
}

// expectedGet returns how many bytes a get reserves at first. If the rows turn out to be large, it starts over.
func (s *Store) expectedGet() int64 {
	return min(max(smallResult, 2*s.expectedRow(false)), largestRow)
}

// encodeGet turns the account of a get into a permit to encode its result of so many bytes. If that is small, or not to
// be encoded, it releases the account. Errors: ctx's, [errLargeRows].
func (k *Account) encodeGet(ctx context.Context, bytes int64, keep bool) (*Permit, error) {
	if bytes < smallResult || !keep {
		k.Release(math.MaxInt64)
		return nil, nil
	}
	if !k.resize(bytes, !smallGet(ctx)) {
		return nil, errLargeRows
	}
	return k.encode(ctx)
}

// get serves one key by the index; ok is false if it cannot. Unless fetch is set, it also cannot if the value is not in
// memory.
func (s *Store) get(ctx context.Context, req *RangeRequest, fetch bool) (_ *RangeResult, ok bool, _ error) {
	if req.filtered() || req.Target == SortValue {
		return nil, false, nil
	}
	it, known, clock := s.index.GetWithClock(index.KeyString(req.Key))
	if req.Revision > 0 {
		if err := clock.Check(req.Revision); err != nil {
			return nil, false, err
		}
	}
	switch {
	case !known:
		return nil, false, nil
	case it == nil:
		if req.Revision > 0 && req.Revision < clock.Revision {
			return nil, false, nil
		}
		return &RangeResult{Revision: clock.Revision}, true, nil
	case req.Revision > 0 && it.ModRevision > req.Revision:
		return nil, false, nil
	}
	res := &RangeResult{Count: 1, Revision: clock.Revision}
	if req.CountOnly {
		return res, true, nil
	}
	if !fetch && !req.KeysOnly && !it.Cached() {
		return nil, false, nil
	}
	rows, err := s.rows(ctx, []*index.Item{it}, clock.Epoch, req)
	res.Rows = rows
	return res, true, err
}
