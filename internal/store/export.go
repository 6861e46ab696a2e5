package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// Export is the whole store at one revision, for snapshots and hashes. The rows that it covers are not deleted until it
// is closed.
type Export struct {
	Revision, Compacted int64
	Leases              []Lease
	Alarms              []Alarm
	Settings            backend.Settings

	s      *Store
	epoch  int64
	local  *pin
	shared int64 // id of the pin that other replicas respect, 0 if there are none; see sharedPin
}

// exportPinLimit is how long an export that is not closed keeps the other replicas from deleting rows.
const exportPinLimit = 30 * time.Minute

// Export pins the current revision and returns the store at it. The caller must close it. Errors: those of the backend.
func (s *Store) Export(ctx context.Context) (*Export, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	x := &Export{Settings: s.settings, s: s, Alarms: s.Alarms()}
	if err := s.retryCompacted(ctx, func() error { return x.tryPin(ctx) }); err != nil {
		x.unpin()
		return nil, fmt.Errorf("export: %w", err)
	}
	return x, nil
}

// tryPin pins the current revision and reads the leases. A lease is granted before its keys are visible and revoked
// after them. So the leases read before and after the revision is fixed together include every lease that a key has at
// it.
func (x *Export) tryPin(ctx context.Context) error {
	before, err := x.s.lessor.all(ctx)
	if err != nil {
		return err
	}
	x.unpin()
	x.s.pins.mu.Lock() // a purge that starts later sees the pin, or a compacted revision not above it
	at := x.s.index.Position()
	x.Revision, x.Compacted, x.epoch = at.Revision, at.Compacted, at.Epoch
	// Rows superseded at or below the compacted revision are not exported; those superseded above it must not be
	// deleted.
	x.local = &pin{rev: max(x.Compacted, 0), export: true}
	x.s.pins.add(x.local)
	x.s.pins.mu.Unlock()
	x.Leases = nil
	after, err := x.s.lessor.all(ctx)
	if err != nil {
		return err
	}
	for _, l := range slices.Concat(before, after) {
		x.Leases = append(x.Leases, Lease{ID: l.ID, Granted: l.Granted, Remaining: l.Granted})
	}
	slices.SortFunc(x.Leases, func(a, b Lease) int { return cmp.Compare(a.ID, b.ID) })
	x.Leases = slices.CompactFunc(x.Leases, func(a, b Lease) bool { return a.ID == b.ID })
	x.shared, err = x.s.peers.pinFor(ctx, max(x.Compacted, 0), exportPinLimit)
	return err
}

// Close releases the export's pins, so that its rows can be deleted.
func (x *Export) Close() {
	x.unpin()
	if x.shared != 0 {
		x.s.peers.free(x.shared)
	}
}

func (x *Export) unpin() {
	if x.local != nil {
		x.local.end()
		x.local = nil
	}
}

// check returns an error if the snapshot with clock c, read with the export's pin named, may lack rows that the export
// covers.
func (x *Export) check(c backend.Clock) error {
	switch {
	case c.Epoch != x.epoch || c.Revision < x.Revision:
		return fmt.Errorf("export: %w: history was lost; begin again", ErrUnavailable)
	case x.shared != 0 && c.Compacted > max(x.Compacted, 0):
		return fmt.Errorf("export: %w, and rows may have been deleted: it took longer than %v, or a failover lost "+
			"its pin; begin again",
			ErrCompacted, exportPinLimit)
	}
	return nil
}

// Rows calls f with every row of the export, tombstones included, in the order in which the rows were written. It
// leaves out rows superseded at or below the compacted revision, whether or not they are physically deleted. f must not
// keep the row after it returns. Errors: [ErrUnavailable] if history was lost, [ErrCompacted] if rows may have been
// deleted, f's, those of the backend.
func (x *Export) Rows(ctx context.Context, f func(backend.Row) error) error {
	return x.rows(ctx, 0, x.Revision, f)
}

// rows is Rows for the revisions above after, up to until.
func (x *Export) rows(ctx context.Context, after, until int64, f func(backend.Row) error) error {
	chunk := chunkFirst
	for after < until {
		hist, err := x.history(ctx, backend.HistoryQuery{After: after, Until: until, Limit: chunk})
		if err != nil {
			return err
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

// history reads a part of the rows that the export covers.
func (x *Export) history(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	q.Span, q.Bytes, q.Pin = index.Span{Open: true}.Backend(), chunkBytes, x.shared
	hist, err := x.s.backend.History(ctx, q)
	if err != nil {
		return hist, fmt.Errorf("export: %w", err)
	}
	return hist, x.check(hist.Clock)
}

// superseded returns which of the rows at or below the compacted revision are not the newest of their key there.
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
		if x.s.index.HasNewest(r) {
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
	rows, clock, err := x.s.backend.Range(ctx, backend.RangeQuery{
		Span: backend.Span{Start: key}, Revision: x.Compacted, Limit: 1, KeysOnly: true, Pin: x.shared,
	})
	if err == nil {
		err = x.check(clock)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}
