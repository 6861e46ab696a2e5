package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// Export is the whole store at one revision, for snapshots and hashes. The rows that it covers are not deleted until it
// is closed.
type Export struct {
	Revision, Compacted int64
	// Epoch is that of the history which Revision belongs to.
	Epoch int64
	// Leases are all leases, none if RowsOnly is set.
	Leases   []Lease
	RowsOnly bool
	Alarms   []Alarm
	Settings backend.Settings
	Auth     *auth.State

	// Chunk is the most rows that one statement reads, 0 for the default. Smaller ones disturb others less.
	Chunk int

	s       *Store
	local   *pin
	shared  int64        // id of the pin that other replicas respect, 0 if there are none; see sharedPin
	renewed atomic.Int64 // when that pin was created or last renewed, in nanoseconds since 1970
}

const (
	// exportPinLimit is how long an export that is neither read nor closed keeps the other replicas from deleting rows.
	exportPinLimit = 30 * time.Minute
	// exportRenewal is how often an export that is read renews its pin.
	exportRenewal = exportPinLimit / 6
)

// Export pins the current revision and returns the store at it. The caller must close it. Errors:
// those of [Store.CheckAdmin].
func (s *Store) Export(ctx context.Context) (*Export, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, err
	}
	return s.export(ctx, false)
}

// ExportRows is Export without the leases, which may be many.
func (s *Store) ExportRows(ctx context.Context) (*Export, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, err
	}
	return s.export(ctx, true)
}

// export is Export for the store itself.
func (s *Store) export(ctx context.Context, rowsOnly bool) (*Export, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	x := &Export{Settings: s.settings, s: s, Alarms: s.Alarms(), RowsOnly: rowsOnly}
	if err := s.retryCompacted(ctx, func() error { return x.tryPin(ctx) }); err != nil {
		x.unpin()
		return nil, fmt.Errorf("export: %w", err)
	}
	return x, nil
}

// LeasesOf returns those of the leases that exist now; others may have ended since the export. Errors: those of the
// backend.
func (x *Export) LeasesOf(ctx context.Context, ids []int64) ([]Lease, error) {
	return x.s.lessor.some(ctx, ids)
}

// leases returns all leases, none if they are not wanted.
func (x *Export) leases(ctx context.Context) ([]Lease, error) {
	if x.RowsOnly {
		return nil, nil
	}
	return x.s.lessor.all(ctx)
}

// tryPin pins the current revision and reads the leases. A lease is granted before its keys are visible and revoked
// after them. So the leases read before and after the revision is fixed together include every lease that a key has at
// it.
func (x *Export) tryPin(ctx context.Context) error {
	before, err := x.leases(ctx)
	if err != nil {
		return err
	}
	x.unpin()
	x.s.pins.mu.Lock() // a purge that starts later sees the pin, or a compacted revision not above it
	at := x.s.index.Position()
	x.Revision, x.Compacted, x.Epoch = at.Revision, at.Compacted, at.Epoch
	// Rows superseded at or below the compacted revision are not exported; those superseded above it must not be
	// deleted.
	x.local = &pin{rev: max(x.Compacted, 0), export: true}
	x.s.pins.add(x.local)
	x.s.pins.mu.Unlock()
	x.Auth = x.s.Auth()
	after, err := x.leases(ctx)
	if err != nil {
		return err
	}
	x.Leases = slices.Concat(before, after)
	slices.SortFunc(x.Leases, func(a, b Lease) int { return cmp.Compare(a.ID, b.ID) })
	x.Leases = slices.CompactFunc(x.Leases, func(a, b Lease) bool { return a.ID == b.ID })
	x.renewed.Store(x.s.cfg.Now().UnixNano())
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

// renew prolongs the pin that the other replicas respect, if it is time. If that fails, the next read finds the pin, or
// that it is gone.
func (x *Export) renew(ctx context.Context) {
	now, last := x.s.cfg.Now(), x.renewed.Load()
	if x.shared == 0 || now.Sub(time.Unix(0, last)) < exportRenewal ||
		!x.renewed.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if err := x.s.peers.renewPin(ctx, x.shared, exportPinLimit); err != nil {
		x.s.cfg.Logger.Warn("an export may lose rows to a compaction: its pin was not renewed", "revision", x.Revision,
			"error", err)
	}
}

// check returns an error if the snapshot with clock c, read with the export's pin named, may lack rows that the export
// covers.
func (x *Export) check(c backend.Clock) error {
	switch {
	case c.Epoch != x.Epoch || c.Revision < x.Revision:
		return fmt.Errorf("export: %w: history was lost; begin again", ErrUnavailable)
	case x.shared != 0 && c.Compacted > max(x.Compacted, 0):
		return fmt.Errorf("export: %w, and rows may have been deleted: it was not read for %v, or a failover lost "+
			"its pin; begin again", ErrCompacted, exportPinLimit)
	}
	return nil
}

// Rows calls f with every row of the export, tombstones included, in the order in which the rows were written. It
// leaves out rows superseded at or below the compacted revision, whether or not they are physically deleted. f must not
// keep the row after it returns. Errors: [ErrUnavailable] if history was lost, [ErrCompacted] if rows may have been
// deleted, f's, those of the backend.
func (x *Export) Rows(ctx context.Context, f func(backend.Row) error) error {
	return x.RowsBetween(ctx, 0, x.Revision, f)
}

// RowsBetween is Rows for the revisions above after, up to until. Revisions above the export's have all their rows,
// too, as long as it is open, even if they have been compacted since.
func (x *Export) RowsBetween(ctx context.Context, after, until int64, f func(backend.Row) error) error {
	most := cmp.Or(x.Chunk, readChunk)
	chunk := min(chunkFirst, most)
	dead, err := x.superseded(ctx, after, x.Compacted)
	if err != nil {
		return err
	}
	for after < until {
		hist, err := x.history(ctx, backend.HistoryQuery{After: after, Until: until, Limit: chunk})
		if err != nil {
			return err
		}
		gone, err := dead.among(ctx, len(hist.Changes), func(i int) *backend.Row { return &hist.Changes[i].Row })
		if err != nil {
			return err
		}
		total := int64(0)
		for i := range hist.Changes {
			r := &hist.Changes[i].Row
			total += int64(len(r.Key) + len(r.Value))
			if gone.next(r) || r.Deleted && r.ModRevision < x.Compacted {
				continue
			}
			if err := f(*r); err != nil {
				return err
			}
		}
		chunk = fitChunk(chunk, len(hist.Changes), total, most)
		after = hist.Through
	}
	return nil
}

// history reads a part of the rows that the export covers.
func (x *Export) history(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	q.Span, q.Bytes, q.Pin = index.Span{Open: true}.Backend(), chunkBytes, x.shared
	x.renew(ctx)
	hist, err := x.s.backend.History(ctx, q)
	if err != nil {
		return hist, fmt.Errorf("export: %w", err)
	}
	return hist, x.check(hist.Clock)
}
