package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// pinTime is how long a source's rows are kept from deletion, unless it is closed.
const pinTime = 24 * time.Hour

// Database is a sqlstore's database. It implements [backend.Source]. Servers may continue to use it: what they write
// after it was opened is not part of it.
type Database struct {
	b         backend.Backend
	pin       int64
	contents  backend.Contents
	survivors *Survivors
}

// OpenDatabase pins the current revision of a database, which must hold a store. Close closes b, too. Errors:
// [backend.ErrSource], those of the backend.
func OpenDatabase(ctx context.Context, b backend.Backend) (*Database, error) {
	d := &Database{b: b}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Database) open(ctx context.Context) error {
	state, err := d.b.Import(ctx)
	if err != nil {
		return err
	}
	if state.Source != 0 {
		return fmt.Errorf("%w: %w", backend.ErrSource, backend.ErrImporting)
	}
	settings, err := d.b.Settings(ctx)
	if err != nil {
		return err
	}
	clock, err := d.pinned(ctx)
	if err != nil {
		return err
	}
	d.contents = backend.Contents{
		Revision: clock.Revision, Compacted: max(clock.Compacted, 0), Gaps: state.Gaps > max(clock.Compacted, 0),
		ClusterID: settings.ClusterID, Dated: true,
	}
	if d.contents.Leases, err = d.b.Leases(ctx); err != nil {
		return err
	}
	auth, err := d.b.Auth(ctx)
	if err != nil {
		return err
	}
	if auth.Revision > 1 {
		d.contents.Auth = &auth
	}
	size, err := d.b.Size(ctx)
	if err != nil {
		return err
	}
	d.contents.Bytes = size.InUse
	d.survivors = NewSurvivors(d.contents.Compacted)
	return d.each(ctx, d.contents.Compacted, true, func(r *backend.Row) error {
		d.survivors.See(r)
		return nil
	})
}

// pinned keeps the rows at the compacted revision from deletion, and returns the clock.
func (d *Database) pinned(ctx context.Context) (backend.Clock, error) {
	for {
		clock, err := d.b.Clock(ctx)
		shared, ok := d.b.(backend.Shared)
		if err != nil || !ok {
			return clock, err
		}
		switch d.pin, err = shared.Pin(ctx, max(clock.Compacted, 0), pinTime); {
		case errors.Is(err, backend.ErrCompacted): // by a compaction meanwhile
			continue
		default:
			return clock, err
		}
	}
}

// Contents implements [backend.Source].
func (d *Database) Contents() *backend.Contents { return &d.contents }

// Rows implements [backend.Source].
func (d *Database) Rows(ctx context.Context, f func(*backend.Row) error) error {
	return d.each(ctx, d.contents.Revision, false, func(r *backend.Row) error {
		if !d.survivors.Has(r) {
			return nil
		}
		r.PrevRevision = 0
		return f(r)
	})
}

func (d *Database) each(ctx context.Context, until int64, keysOnly bool, f func(*backend.Row) error) error {
	q := backend.HistoryQuery{Until: until, KeysOnly: keysOnly, Pin: d.pin}
	return eachRow(ctx, d.b, q, func(c backend.Clock) error {
		if c.Compacted > d.contents.Compacted {
			return fmt.Errorf("%w: it was compacted while it was read: begin again", backend.ErrSource)
		}
		return nil
	}, f)
}

// eachRow calls f with every row up to q.Until, in the order in which they were written, and check with the clock of
// every part that it reads.
func eachRow(
	ctx context.Context, b backend.Backend, q backend.HistoryQuery, check func(backend.Clock) error,
	f func(*backend.Row) error,
) error {
	q.Span, q.Limit, q.Bytes = backend.Span{End: []byte{}}, batchRows, batchBytes
	for q.After < q.Until {
		h, err := b.History(ctx, q)
		if err == nil {
			err = check(h.Clock)
		}
		if err != nil {
			return err
		}
		for i := range h.Changes {
			if err := f(&h.Changes[i].Row); err != nil {
				return err
			}
		}
		q.After = h.Through
	}
	return nil
}

// Remaining implements [LeaseTimes]. A SQLite file has remaining times only until a server opens it.
func (d *Database) Remaining(ctx context.Context) (map[int64]time.Duration, error) {
	remaining, err := d.b.Remaining(ctx)
	if err != nil {
		return nil, err
	}
	if _, shared := d.b.(backend.Shared); shared {
		for _, l := range d.contents.Leases {
			if _, ok := remaining[l.ID]; !ok {
				remaining[l.ID] = 0 // it was revoked meanwhile
			}
		}
	}
	return remaining, nil
}

// Close implements [backend.Source].
func (d *Database) Close() error {
	var err error
	if shared, ok := d.b.(backend.Shared); ok && d.pin != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = shared.Release(ctx, d.pin)
	}
	return errors.Join(err, d.b.Close())
}
