package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Export is the whole store at one revision, for snapshots and hashes. Row deletion is held off until it is closed.
type Export struct {
	Revision, Compacted int64
	Leases              []Lease
	Alarms              []Alarm
	Settings            backend.Settings

	s     *Store
	until int64
}

// Export pins the current revision. Close it.
func (s *Store) Export(context.Context) (*Export, error) {
	s.purge.RLock()
	x := &Export{Settings: s.settings, s: s, Alarms: s.Alarms()}
	s.lessor.mu.Lock()
	defer s.lessor.mu.Unlock()
	s.index.mu.RLock()
	x.Revision, x.Compacted = s.index.rev, s.index.compacted
	s.index.mu.RUnlock()
	x.until = x.Revision
	// A lease is granted before its keys are seen, and revoked after: so all that keys have at the revision are here.
	for id, l := range s.lessor.leases {
		x.Leases = append(x.Leases, Lease{ID: id, Granted: l.ttl, Remaining: l.ttl})
	}
	slices.SortFunc(x.Leases, func(a, b Lease) int { return cmp.Compare(a.ID, b.ID) })
	return x, nil
}

// Close lets rows be deleted again.
func (x *Export) Close() { x.s.purge.RUnlock() }

// Rows hands every row that the export keeps to f, in the order in which they were written, tombstones included; rows
// superseded at or below the compacted revision are left out, whether or not they are physically gone. The rows are f's
// only during the call.
func (x *Export) Rows(ctx context.Context, f func(backend.Row) error) error {
	sp := span{open: true}.backend()
	chunk := chunkFirst
	for after := int64(0); after < x.until; {
		hist, err := x.s.backend.History(ctx, backend.HistoryQuery{After: after, Until: x.until, Span: sp, Limit: chunk})
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		dead, err := x.superseded(ctx, hist.Changes)
		if err != nil {
			return err
		}
		total := int64(0)
		for i := range hist.Changes {
			r := &hist.Changes[i].Row
			total += int64(len(r.Key) + len(r.Value))
			if dead[r.ID()] {
				continue
			}
			if err := f(*r); err != nil {
				return err
			}
		}
		chunk = fitChunk(chunk, len(hist.Changes), total, readChunk)
		after = hist.Through
	}
	return nil
}

// superseded finds those of the rows at or below the compacted revision that are not their key's newest there.
func (x *Export) superseded(ctx context.Context, changes []backend.Change) (map[backend.RowID]bool, error) {
	dead := map[backend.RowID]bool{}
	for i := range changes {
		r := &changes[i].Row
		if r.ModRevision > x.Compacted {
			continue
		}
		if r.Deleted {
			dead[r.ID()] = r.ModRevision < x.Compacted
			continue
		}
		if x.s.index.holds(r) {
			continue
		}
		newest, err := x.newest(ctx, r.Key)
		if err != nil {
			return nil, err
		}
		dead[r.ID()] = newest == nil || newest.ID() != r.ID()
	}
	return dead, nil
}

// newest returns key's live row at the compacted revision.
func (x *Export) newest(ctx context.Context, key []byte) (*backend.Row, error) {
	rows, _, err := x.s.backend.Range(ctx, backend.RangeQuery{
		Span: backend.Span{Start: key}, Revision: x.Compacted, Limit: 1, KeysOnly: true,
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}
