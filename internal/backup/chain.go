package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// errOtherHistory means that a chain cannot go on.
var errOtherHistory = errors.New("the store no longer continues the last backup")

// chain is a chain of a server's store that is being written.
type chain struct {
	name    string
	full    Name
	seen    time.Time // when the full backup was last seen in the bucket
	began   time.Time // when its full backup was made
	epoch   int64
	through int64
	tail    uint64 // of through
	// known is nil until all leases were written since the server started; authRevision is 0 likewise.
	known        map[int64]time.Duration
	listed       time.Time // when all leases were last read
	authRevision uint64
	// export keeps the rows above through from being deleted, since a time. It is nil until the first changes are
	// written, and after they could not be for too long.
	export *store.Export
	since  time.Time
}

func (c *chain) close() {
	if c.export != nil {
		c.export.Close()
		c.export = nil
	}
}

// resume returns the chain with a store's newest file, if the store continues it, or else nil.
func (r *Repository) resume(ctx context.Context, x *store.Export) (*chain, error) {
	all, err := r.Chains(ctx)
	if err != nil {
		return nil, err
	}
	var last *Chain
	for i := range all {
		c := &all[i]
		if ofStore(c.Name, x.Settings.ClusterID) && (last == nil || !c.Last().At.Before(last.Last().At)) {
			last = c
		}
	}
	if last == nil {
		return nil, nil
	}
	file := last.Last()
	header, footer, err := r.end(ctx, file)
	if err != nil {
		return nil, err
	}
	c := &chain{
		name: last.Name, full: last.Full().Name, seen: time.Now(), began: last.Full().At, epoch: header.Epoch,
		through: header.Revision, tail: footer.Tail,
	}
	if c.epoch == unknownEpoch {
		c.epoch = x.Epoch
	}
	if err := c.continues(ctx, x); err != nil {
		return nil, fmt.Errorf("continue after %s: %w", file.Name, err)
	}
	return c, nil
}

// continues returns nil if the rows of the chain's last revision are those of the store, and none of those that follow
// can have been deleted.
func (c *chain) continues(ctx context.Context, x *store.Export) error {
	switch {
	case x.Epoch != c.epoch:
		return fmt.Errorf("%w: history was lost", errOtherHistory)
	case x.Revision < c.through:
		return fmt.Errorf("%w: it is at revision %d, before %d, which is in the backup: was an older state restored?",
			errOtherHistory, x.Revision, c.through)
	case x.Compacted > c.through:
		return fmt.Errorf("%w: it is compacted up to revision %d, after %d, up to which it was saved", errOtherHistory,
			x.Compacted, c.through)
	}
	var t tail
	err := x.RowsBetween(ctx, c.through-1, c.through, func(r backend.Row) error {
		t.add(&r)
		return nil
	})
	if err == nil && t.of(c.through) != c.tail {
		err = fmt.Errorf("%w: revision %d has other rows than in the backup: was an older state restored?",
			errOtherHistory, c.through)
	}
	return err
}

// find returns errOtherHistory if the chain's full backup was deleted, so that nothing can be restored from its
// changes.
func (r *Repository) find(ctx context.Context, c *chain) error {
	if time.Since(c.seen) < refresh {
		return nil
	}
	exists, err := r.exists(ctx, c.full)
	switch {
	case err != nil:
		return fmt.Errorf("find %s: %w", c.full, err)
	case !exists:
		return fmt.Errorf("%w: %s is no longer there", errOtherHistory, c.full)
	}
	c.seen = time.Now()
	return nil
}

// changes writes what was committed up to x, reading it with the help of the export before. It takes x over unless it
// fails. The result has no rows and no time if there was nothing to write.
func (r *Repository) changes(ctx context.Context, c *chain, x *store.Export, version string, at time.Time) (
	written Name, _ Footer, err error,
) {
	from := x
	if x.Compacted > c.through && c.export != nil {
		from = c.export
	}
	if x.Epoch != c.epoch || x.Revision < c.through || max(from.Compacted, 0) > c.through {
		return written, Footer{}, fmt.Errorf("%w: its revision is %d in epoch %d, and it is compacted up to %d",
			errOtherHistory, x.Revision, x.Epoch, from.Compacted)
	}
	d := &delta{chain: c, from: from, to: x}
	if d.diff(); d.empty() {
		d.done(c.tail)
		return written, Footer{}, nil
	}
	header := &Header{
		Format: format, Version: version, ClusterID: strconv.FormatUint(x.Settings.ClusterID, 16), Epoch: x.Epoch,
		After: c.through, Revision: x.Revision, Compacted: x.Compacted, At: at,
	}
	name := Name{
		Chain: c.name, After: c.through, Revision: x.Revision, At: at, Encrypted: len(r.Recipients) > 0,
	}
	w, err := r.create(ctx, name, header)
	if err != nil {
		return name, Footer{}, err
	}
	if err := d.write(ctx, w); err != nil {
		w.abort()
		if from != x && errors.Is(err, store.ErrCompacted) { // rows are gone, however often it is tried
			err = fmt.Errorf("%w: %w", errOtherHistory, err)
		}
		return name, Footer{}, fmt.Errorf("write %s: %w", name, err)
	}
	footer, err := r.finish(w, name)
	if err != nil {
		return name, footer, err
	}
	if x.Revision == c.through {
		d.done(c.tail)
	} else {
		d.done(footer.Tail)
	}
	return name, footer, nil
}

// leasesAtOnce is how many leases are looked up together.
const leasesAtOnce = 1000

// delta is what one file of changes holds. Leases without keys, and the ends of leases, are in it only if the export
// has all leases.
type delta struct {
	chain    *chain
	from, to *store.Export
	leases   map[int64]time.Duration
	granted  []backend.Lease
	ended    []int64
	auth     *backend.Auth
}

func (d *delta) diff() {
	if a := d.to.Auth; a.Revision() != d.chain.authRevision {
		stored := a.Stored()
		d.auth = &stored
	}
	if d.to.RowsOnly {
		return
	}
	d.leases = make(map[int64]time.Duration, len(d.to.Leases))
	for _, l := range d.to.Leases {
		d.leases[l.ID] = l.Granted
		if ttl, ok := d.chain.known[l.ID]; !ok || ttl != l.Granted {
			d.granted = append(d.granted, backend.Lease{ID: l.ID, TTL: l.Granted})
		}
	}
	for id := range d.chain.known {
		if _, ok := d.leases[id]; !ok {
			d.ended = append(d.ended, id)
		}
	}
}

func (d *delta) empty() bool {
	return d.to.Revision == d.chain.through && d.chain.known != nil && len(d.granted)+len(d.ended) == 0 && d.auth == nil
}

func (d *delta) write(ctx context.Context, w *fileWriter) error {
	if d.auth != nil {
		if err := w.encoder.auth(d.auth); err != nil {
			return err
		}
	}
	if d.chain.known == nil {
		if err := w.allLeases(); err != nil {
			return err
		}
	}
	for _, l := range d.granted {
		if err := w.granted(l.ID, l.TTL); err != nil {
			return err
		}
	}
	for _, id := range d.ended {
		if err := w.encoder.ended(id); err != nil {
			return err
		}
	}
	unknown := map[int64]bool{}
	err := d.from.RowsBetween(ctx, d.chain.through, d.to.Revision, func(r backend.Row) error {
		if _, ok := d.chain.known[r.Lease]; d.to.RowsOnly && r.Lease != 0 && !ok {
			unknown[r.Lease] = true
		}
		return w.row(&r)
	})
	if err != nil {
		return err
	}
	return d.newLeases(ctx, w, slices.Sorted(maps.Keys(unknown)))
}

// newLeases writes those leases of keys that no file has yet. One that has ended since the export gets a TTL, too:
// without a lease, its keys would never expire. The next list of all leases says that it has ended.
func (d *delta) newLeases(ctx context.Context, w *fileWriter, ids []int64) error {
	for part := range slices.Chunk(ids, leasesAtOnce) {
		found, err := d.to.LeasesOf(ctx, part)
		if err != nil {
			return err
		}
		ttls := map[int64]time.Duration{}
		for _, l := range found {
			ttls[l.ID] = l.Granted
		}
		for _, id := range part {
			l := backend.Lease{ID: id, TTL: cmp.Or(ttls[id], unknownTTL)}
			d.granted = append(d.granted, l)
			if err := w.granted(l.ID, l.TTL); err != nil {
				return err
			}
		}
	}
	return nil
}

// done moves the chain on.
func (d *delta) done(tail uint64) {
	c := d.chain
	c.close()
	c.export, c.since, c.through, c.tail = d.to, time.Now(), d.to.Revision, tail
	c.authRevision = d.to.Auth.Revision()
	if !d.to.RowsOnly {
		c.known, c.listed = d.leases, c.since
		return
	}
	for _, l := range d.granted {
		c.known[l.ID] = l.TTL
	}
}
