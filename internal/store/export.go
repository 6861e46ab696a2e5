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

// Export is the whole store at one revision, for snapshots and hashes. The rows that it keeps are not deleted until it
// is closed.
type Export struct {
	Revision, Compacted int64
	Leases              []Lease
	Alarms              []Alarm
	Settings            backend.Settings

	s      *Store
	until  int64
	epoch  int64
	local  *pin
	shared int64 // what the other replicas have heard of, 0 where there are none; see sharedPin
}

// exportPinLimit is how long the other replicas hold off row deletion for an export that they do not hear of again.
const exportPinLimit = 30 * time.Minute

// Export pins the current revision. Close it. Errors: those of the backend.
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

// tryPin fixes the revision and reads the leases. One is granted before its keys are seen and revoked after, so those
// that were there before the revision was fixed or after are all that keys have at it.
func (x *Export) tryPin(ctx context.Context) error {
	before, err := x.s.lessor.all(ctx)
	if err != nil {
		return err
	}
	x.unpin()
	x.s.pins.mu.Lock() // a purge that begins later sees the pin, or a compacted revision that is not above it
	at := x.s.index.Position()
	x.Revision, x.Compacted, x.epoch = at.Revision, at.Compacted, at.Epoch
	// What is superseded at or below the compacted revision is left out, and what is above may not go.
	x.local = &pin{rev: max(x.Compacted, 0), export: true}
	x.s.pins.add(x.local)
	x.s.pins.mu.Unlock()
	x.until, x.Leases = x.Revision, nil
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

// Close lets rows be deleted again.
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

// check says whether all that the export keeps was there in the snapshot of clock c, with the pin named.
func (x *Export) check(c backend.Clock) error {
	switch {
	case c.Epoch != x.epoch || c.Revision < x.until:
		return fmt.Errorf("export: %w: history was lost; begin again", ErrUnavailable)
	case x.shared != 0 && c.Compacted > max(x.Compacted, 0):
		return fmt.Errorf("export: %w, and rows may have been deleted: it took longer than %v, or a failover lost "+
			"its pin; begin again",
			ErrCompacted, exportPinLimit)
	}
	return nil
}

// Rows hands every row that the export keeps to f, in the order in which they were written, tombstones included; rows
// superseded at or below the compacted revision are left out, whether or not they are physically gone. The rows are f's
// only during the call.
func (x *Export) Rows(ctx context.Context, f func(backend.Row) error) error {
	sp := index.Span{Open: true}.Backend()
	chunk := chunkFirst
	for after := int64(0); after < x.until; {
		hist, err := x.s.backend.History(ctx, backend.HistoryQuery{
			After: after, Until: x.until, Span: sp, Limit: chunk,
			Bytes: chunkBytes, Pin: x.shared,
		})
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := x.check(hist.Clock); err != nil {
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
