package transfer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// memberTimeout is the time after which a replica that has sent no heartbeat counts as dead.
const memberTimeout = 10 * time.Second

// Check returns the error of a [Load] that fails whatever the source is, before a source is read: [ErrNotEmpty] or
// [ErrTargetInUse]. Otherwise it returns the mark of the import that the target has, 0 if none has begun.
func Check(ctx context.Context, b backend.Backend) (mark int64, err error) {
	l := &loader{b: b}
	state, err := b.Import(ctx)
	if err != nil {
		return 0, err
	}
	if state.Source == 0 {
		if err := l.refuseData(ctx); err != nil {
			return 0, err
		}
	}
	return state.Source, l.refuseMembers(ctx)
}

// importName is the name of an import among the members, which it is for a moment.
const importName = "import"

// claim marks an empty target, or takes over from another command of the same import: that one writes nothing more.
func (l *loader) claim(ctx context.Context) error {
	state, err := l.b.Import(ctx)
	if err != nil {
		return err
	}
	switch state.Source {
	case l.o.Mark:
	case 0:
		if err := l.refuseData(ctx); err != nil {
			return err
		}
	default:
		return ErrOtherImport
	}
	l.held = backend.Import{Source: l.o.Mark, Gaps: state.Gaps, Holder: rand.Int64N(1<<62) + 1}
	if err := l.b.SetImport(ctx, state, l.held, 0); err != nil {
		return err
	}
	// A server that starts from now on finds the mark. One that started before is a member.
	if err := l.refuseMembers(ctx); err != nil {
		if state.Source == 0 {
			return withUndo(err, l.b.SetImport(ctx, l.held, backend.Import{}, 0))
		}
		return err
	}
	clock, err := l.b.Clock(ctx)
	if err != nil {
		return err
	}
	l.at = clock.Revision
	return nil
}

// holds returns [backend.ErrTakenOver] unless the target is this command's still.
func (l *loader) holds(ctx context.Context) error {
	state, err := l.b.Import(ctx)
	if err == nil && state != l.held {
		err = backend.ErrTakenOver
	}
	return err
}

func withUndo(err, undo error) error {
	if undo != nil {
		return fmt.Errorf("%w (and the mark of the import could not be removed: %w)", err, undo)
	}
	return err
}

// refuseRevision returns [backend.ErrRevisionTooHigh] unless the target has enough revisions above the source's.
func (l *loader) refuseRevision(ctx context.Context) error {
	settings, err := l.b.Settings(ctx)
	if err != nil {
		return err
	}
	if err := settings.Lifts(l.contents.Revision); err != nil {
		return fmt.Errorf("the target's %w: import into a database on Postgres, which holds more", err)
	}
	return nil
}

// refuseData returns [ErrNotEmpty] unless the target is as new.
func (l *loader) refuseData(ctx context.Context) error {
	clock, err := l.b.Clock(ctx)
	if err != nil {
		return err
	}
	leases, err := l.b.Leases(ctx)
	if err != nil {
		return err
	}
	auth, err := l.b.Auth(ctx)
	if err != nil {
		return err
	}
	if clock.Revision != 1 || clock.Compacted != 0 || len(leases) > 0 || len(auth.Users)+len(auth.Roles) > 0 {
		return fmt.Errorf("%w (this one is at revision %d; leases: %d, users: %d)", ErrNotEmpty, clock.Revision,
			len(leases), len(auth.Users))
	}
	return nil
}

// refuseMembers returns [ErrTargetInUse] if replicas serve the target.
func (l *loader) refuseMembers(ctx context.Context) error {
	shared, ok := l.b.(backend.Shared)
	if !ok {
		return nil // the file is locked
	}
	self := backend.Member{ID: rand.Uint64N(1<<62) + 1, Name: importName}
	live, err := shared.Heartbeat(ctx, self, memberTimeout, memberTimeout)
	if err != nil {
		return err
	}
	if err := shared.Leave(ctx, self.ID); err != nil {
		return err
	}
	for _, m := range live.Members {
		switch {
		case m.ID == self.ID:
		case m.Name == importName:
			return fmt.Errorf("%w: another import begins, or was killed when it did: wait %v, and run the command "+
				"again", ErrTargetInUse, memberTimeout)
		default:
			return fmt.Errorf("%w: the replica %s serves it", ErrTargetInUse, m.Name)
		}
	}
	return nil
}
