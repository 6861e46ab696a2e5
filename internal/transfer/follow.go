package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/snapshot"
)

var (
	// ErrNotFollowing is returned for a target that does not follow the source.
	ErrNotFollowing = errors.New("the database does not follow this source: run 'sqlstore import --follow' first")
	// ErrOpened is returned for a target that servers can open already.
	ErrOpened = errors.New("the database is open: a cut-over has ended, and 'sqlstore serve' can start; or it is " +
		"another store's database")
)

// Following is a target that follows a source: it holds everything up to a revision, and takes what comes next. Every
// method that writes returns [backend.ErrTakenOver] once another command has resumed or opened the target.
type Following struct {
	l       *loader
	granted map[int64]bool
}

// Resume opens a target that [Load] left with the mark follow, or that followed before. It takes the target over from a
// command that still follows. Errors: [ErrNotFollowing],
// [ErrOpened], [ErrTargetInUse], those of the backend.
func Resume(ctx context.Context, b backend.Backend, follow int64) (*Following, error) {
	state, err := b.Import(ctx)
	if err != nil {
		return nil, err
	}
	clock, err := b.Clock(ctx)
	switch {
	case err != nil:
		return nil, err
	case state.Source == 0 && clock.Revision > 1:
		return nil, fmt.Errorf("%w: it is at revision %d", ErrOpened, clock.Revision)
	case state.Source != follow:
		return nil, ErrNotFollowing
	}
	f := &Following{l: &loader{b: b, o: Options{Mark: follow}}, granted: map[int64]bool{}}
	if err := f.l.claim(ctx); err != nil {
		return nil, err
	}
	leases, err := b.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, lease := range leases {
		f.granted[lease.ID] = true
	}
	f.l.links = newLinks(&backend.Contents{Compacted: max(clock.Compacted, 0), Gaps: state.Gaps > 0})
	return f, eachRow(ctx, b, backend.HistoryQuery{Until: clock.Revision, KeysOnly: true},
		unchecked, f.l.links.add)
}

// unchecked accepts every clock: nobody else uses the target.
func unchecked(backend.Clock) error { return nil }

// Revision is the revision up to which the target holds everything.
func (f *Following) Revision() int64 { return f.l.at }

// Write adds the rows of further revisions, in (ModRevision, Ordinal) order and without PrevRevision, which it sets.
// Errors: [backend.ErrDamagedSource], [ErrTargetInUse], those of the backend.
func (f *Following) Write(ctx context.Context, rows []backend.Row) error {
	for i := range rows {
		if err := f.l.links.add(&rows[i]); err != nil {
			return err
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), batchRows)
		for n < len(rows) && rows[n].ModRevision == rows[n-1].ModRevision {
			n++
		}
		if err := f.l.write(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// HasLease reports whether the target has a lease.
func (f *Following) HasLease(id int64) bool { return f.granted[id] }

// Leases returns the ids of the target's leases, in no particular order.
func (f *Following) Leases() []int64 { return slices.Collect(maps.Keys(f.granted)) }

// SetLeases grants and revokes leases, so that all remain. The TTL of those that the target has does not matter.
func (f *Following) SetLeases(ctx context.Context, all []backend.Lease) error {
	if err := f.l.holds(ctx); err != nil { // also where nothing changes: a follower ends soon after a cut-over
		return err
	}
	left := map[int64]bool{}
	var granted []backend.Lease
	for _, lease := range all {
		left[lease.ID] = true
		if !f.granted[lease.ID] {
			granted = append(granted, lease)
		}
	}
	var revoked []int64
	for id := range f.granted {
		if !left[id] {
			revoked = append(revoked, id)
		}
	}
	for part := range slices.Chunk(granted, batchLeases) {
		if err := f.l.commit(ctx, &backend.Effects{Granted: part, Revision: f.l.at}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(revoked, batchLeases) {
		if err := f.l.commit(ctx, &backend.Effects{Revoked: part, Revision: f.l.at}); err != nil {
			return err
		}
	}
	f.granted = left
	return nil
}

// AuthRevision returns the revision of the target's users and roles.
func (f *Following) AuthRevision(ctx context.Context) (uint64, error) {
	a, err := f.l.b.Auth(ctx)
	return a.Revision, err
}

// SetAuth replaces the users and roles.
func (f *Following) SetAuth(ctx context.Context, a *backend.Auth) error {
	before, err := f.l.b.Auth(ctx)
	if err != nil {
		return err
	}
	change := authChange(a)
	for _, u := range before.Users {
		if !slices.ContainsFunc(a.Users, func(x backend.AuthUser) bool { return x.Name == u.Name }) {
			change.DroppedUsers = append(change.DroppedUsers, u.Name)
		}
	}
	for _, r := range before.Roles {
		if !slices.ContainsFunc(a.Roles, func(x backend.AuthRole) bool { return x.Name == r.Name }) {
			change.DroppedRoles = append(change.DroppedRoles, r.Name)
		}
	}
	return f.l.commit(ctx, &backend.Effects{Revision: f.l.at, Auth: change})
}

// Compact compacts the target as the source was compacted.
func (f *Following) Compact(ctx context.Context, revision int64) error {
	if revision <= f.l.links.compacted {
		return nil
	}
	if err := f.l.commit(ctx, &backend.Effects{Revision: f.l.at, Compacted: revision}); err != nil {
		return err
	}
	f.l.links.compacted = revision
	return nil
}

// Compacted is the revision at which the target is compacted, 0 if it is not.
func (f *Following) Compacted() int64 { return f.l.links.compacted }

// Hash returns etcd's HashKV of the target at its revision, as it is if the target has the entry of
// [backend.Contents.Raised], too, unless that is 0.
func (f *Following) Hash(ctx context.Context, raised int64) (uint32, error) {
	survivors := NewSurvivors(f.l.links.compacted)
	q := backend.HistoryQuery{Until: f.l.links.compacted, KeysOnly: true}
	err := eachRow(ctx, f.l.b, q, unchecked, func(r *backend.Row) error {
		survivors.See(r)
		return nil
	})
	if err != nil {
		return 0, err
	}
	sum := snapshot.NewSum()
	err = eachRow(ctx, f.l.b, backend.HistoryQuery{Until: f.l.at}, unchecked, func(r *backend.Row) error {
		if raised > 0 && r.ModRevision > raised {
			sum.AddRaised(raised)
			raised = 0
		}
		if survivors.Has(r) && f.l.links.hashed(r) {
			sum.Add(r)
		}
		return nil
	})
	if raised > 0 {
		sum.AddRaised(raised)
	}
	return sum.Hash(), err
}

// SetRemaining gives the target's leases their remaining time at the source.
func (f *Following) SetRemaining(ctx context.Context, remaining map[int64]time.Duration) error {
	return f.l.setRemaining(ctx, remaining)
}

// Finish lets servers open the target, with the given cluster id unless it is 0.
func (f *Following) Finish(ctx context.Context, clusterID uint64) error {
	if err := f.l.b.SetImport(ctx, f.l.held, backend.Import{Gaps: f.l.held.Gaps}, clusterID); err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	return nil
}
