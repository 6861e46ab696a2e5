package transfer

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/snapshot"
)

// verify reads source and target again, and compares etcd's HashKV of both, which covers all columns of all rows.
func (l *loader) verify(ctx context.Context) error {
	l.result.Keys = int64(len(l.links.newest))
	var done Progress
	source := snapshot.NewSum()
	err := l.from.Rows(ctx, func(r *backend.Row) error {
		if l.links.hashed(r) {
			source.Add(r)
		}
		l.verified(&done, r, "verifying the source")
		return nil
	})
	if err != nil {
		return err
	}
	done = Progress{}
	target := snapshot.NewSum()
	unmoved := func(c backend.Clock) error {
		if c.Revision != l.at {
			return fmt.Errorf("%w: its revision has moved from %d to %d", ErrTargetInUse, l.at, c.Revision)
		}
		return nil
	}
	err = eachRow(ctx, l.b, backend.HistoryQuery{Until: l.at}, unmoved, func(r *backend.Row) error {
		if l.links.hashed(r) {
			target.Add(r)
		}
		l.verified(&done, r, "verifying the target")
		return nil
	})
	if err != nil {
		return err
	}
	l.result.Hash, l.result.Rows, l.result.Bytes = target.Hash(), done.Rows, done.Bytes
	if source.Hash() != target.Hash() {
		return fmt.Errorf("%w: HashKV at revision %d is %d in the source, %d in the target; drop the target's "+
			"database and begin again", ErrDiffers, l.contents.Revision, source.Hash(), target.Hash())
	}
	return nil
}

func (l *loader) verified(done *Progress, r *backend.Row, step string) {
	done.Rows++
	done.Bytes += r.Size()
	if done.Step = step; done.Rows%batchRows == 0 {
		l.progress(*done)
	}
}
