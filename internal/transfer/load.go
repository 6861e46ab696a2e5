package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/backend"
)

// Errors of targets.
var (
	// ErrNotEmpty is returned for a target that holds data.
	ErrNotEmpty = errors.New("the target holds data, which an import never changes: choose an empty database")
	// ErrOtherImport is returned if another source's import into the target is not finished.
	ErrOtherImport = errors.New("another source's import into the target is not finished: finish that one, or drop " +
		"the database")
	// ErrTargetInUse is returned if a server serves the target, or something else writes to it.
	ErrTargetInUse = errors.New("the target is in use: stop its servers")
	// ErrDiffers is returned if the target does not hold what the source holds.
	ErrDiffers = errors.New("the target differs from the source")
)

// Options configure [Load].
type Options struct {
	// Mark identifies the source, and is not 0: an import that was interrupted continues only from the same source.
	Mark int64
	// Follow is the mark that the target has afterwards, so that it can follow a source which goes on; see [Resume].
	// With 0, the import ends.
	Follow int64
	// KeepClusterID gives the target the source's cluster id.
	KeepClusterID bool
	// Progress, if not nil, is called often.
	Progress func(Progress)

	batchRows int // default: the constant batchRows
}

// Progress says how far an import is.
type Progress struct {
	// Step is what the import does now: writing or verifying.
	Step string
	// Rows and Bytes, of keys and values, are done, of what [backend.Contents] estimates.
	Rows, Bytes int64
}

// Result is what an import has done.
type Result struct {
	// Rows is how many rows the target holds; Written of them were written by this call, and the others by one before.
	Rows, Written int64
	Bytes         int64
	// Keys is how many keys exist at Revision.
	Keys                int64
	Revision, Compacted int64
	// Hash is etcd's HashKV of both source and target at Revision.
	Hash uint32
}

const (
	// batchRows and batchBytes bound what one transaction writes, except that revisions are not split.
	batchRows  = 8000
	batchBytes = 12 << 20
	// batchLeases is how many leases one transaction grants.
	batchLeases = 5000
)

// Load copies a source into an empty database, or continues an import that was interrupted, and verifies the result.
// Until it succeeds, no server opens the database. Errors: those named here, those of the source and of the backend.
func Load(ctx context.Context, b backend.Backend, from backend.Source, o Options) (*Result, error) {
	l := &loader{b: b, from: from, o: o, contents: from.Contents()}
	l.dated = l.contents.Dated
	l.o.batchRows = cmp.Or(o.batchRows, batchRows)
	err := l.refuseRevision(ctx)
	if err == nil {
		err = l.claim(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := l.load(ctx); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return &l.result, nil
}

// loader is one import.
type loader struct {
	b        backend.Backend
	from     backend.Source
	o        Options
	contents *backend.Contents
	result   Result
	links    *links
	held     backend.Import // what the target has as long as this command may write
	at       int64          // the target's revision
	dated    bool           // the rows have their times
}

func (l *loader) load(ctx context.Context) error {
	if err := l.rows(ctx); err != nil {
		return err
	}
	if err := l.finish(ctx); err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	if lister, ok := l.from.(Lister); ok {
		if err := l.compareKeys(ctx, lister); err != nil {
			return err
		}
	}
	if times, ok := l.from.(LeaseTimes); ok && l.o.Follow == 0 {
		remaining, err := times.Remaining(ctx)
		if err == nil {
			err = l.setRemaining(ctx, remaining)
		}
		if err != nil {
			return err
		}
	}
	done, cluster := backend.Import{Source: l.o.Follow}, uint64(0)
	if l.contents.Gaps {
		done.Gaps = l.contents.Revision
	}
	if l.o.KeepClusterID {
		cluster = l.contents.ClusterID
	}
	return l.b.SetImport(ctx, l.held, done, cluster)
}

// rows writes all rows that the target does not have yet. The source is read while a batch is written.
func (l *loader) rows(ctx context.Context) error {
	l.links = newLinks(l.contents)
	group, ctx := errgroup.WithContext(ctx)
	batches := make(chan *batch)
	group.Go(func() error {
		for b := range batches {
			if err := l.write(ctx, b.rows); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(batches)
		reader := &batchReader{l: l, after: l.at, to: batches, next: &batch{}}
		if err := l.from.Rows(ctx, func(r *backend.Row) error { return reader.row(ctx, r) }); err != nil {
			return err
		}
		return reader.send(ctx)
	})
	return group.Wait()
}

// write commits a batch.
func (l *loader) write(ctx context.Context, rows []backend.Row) error {
	if len(rows) == 0 {
		return nil
	}
	err := l.commit(ctx, &backend.Effects{
		Rows: rows, Revision: rows[len(rows)-1].ModRevision, Dated: l.dated,
	})
	l.result.Written += int64(len(rows))
	return err
}

func (l *loader) commit(ctx context.Context, e *backend.Effects) error {
	tx, err := l.b.Begin(ctx, backend.Needs{Import: true})
	if err != nil {
		return err
	}
	if tx.Loaded().Import != l.held {
		tx.Rollback()
		return backend.ErrTakenOver
	}
	if now := tx.Loaded().Clock.Revision; now != l.at {
		tx.Rollback()
		return fmt.Errorf("%w: its revision has moved from %d to %d; if that was the last transaction of an import "+
			"that was killed, run the command again", ErrTargetInUse, l.at, now)
	}
	e.Batch = rand.Int64N(1<<62) + 1
	if err := tx.Commit(ctx, e); err != nil {
		return fmt.Errorf("%w; run the same command again to continue", err)
	}
	l.at = e.Revision
	return nil
}

// finish writes what is not rows: leases, users and roles, and at last the compacted revision.
func (l *loader) finish(ctx context.Context) error {
	c := l.contents
	if l.at > c.Revision {
		return fmt.Errorf("%w: it has rows of revision %d above its revision %d", backend.ErrDamagedSource, l.at,
			c.Revision)
	}
	granted, err := l.b.Leases(ctx)
	if err != nil {
		return err
	}
	known := map[int64]bool{}
	for _, lease := range granted {
		known[lease.ID] = true
	}
	missing := slices.DeleteFunc(slices.Clone(c.Leases), func(lease backend.Lease) bool { return known[lease.ID] })
	for part := range slices.Chunk(missing, batchLeases) {
		if err := l.commit(ctx, &backend.Effects{Granted: part, Revision: l.at}); err != nil {
			return err
		}
	}
	e := &backend.Effects{Revision: c.Revision, Compacted: max(c.Compacted, 0), Auth: authChange(c.Auth)}
	l.result.Revision, l.result.Compacted = c.Revision, c.Compacted
	return l.commit(ctx, e)
}

// authChange sets all users and roles, none if a is nil.
func authChange(a *backend.Auth) *backend.AuthChange {
	if a == nil {
		return nil
	}
	return &backend.AuthChange{
		Enabled: a.Enabled, Revision: a.Revision, TokensFrom: a.Revision, Users: a.Users, Roles: a.Roles,
	}
}

func (l *loader) progress(p Progress) {
	if l.o.Progress != nil {
		l.o.Progress(p)
	}
}
