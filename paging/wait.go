package paging

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// patience is how long a read waits for a revision that is not written yet; Kubernetes' watch cache waits as long.
const patience = 3 * time.Second

// await returns when this replica shows the revision. One above what it knows may have been written by another replica, so the
// database is asked once; then the store tells when it has come. Errors: [*TooLargeError], the engine's, ctx's.
func (p *Pager) await(ctx context.Context, revision int64) error {
	if revision <= p.engine.Revision() {
		return nil
	}
	if current, err := p.confirm(ctx); err != nil || revision <= current {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	current, err := p.engine.AwaitRevision(limited, revision)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &TooLargeError{Requested: revision, Current: current}
	}
	return err
}

// confirm returns the revision when this replica shows what was acknowledged before, by whichever replica: so does any linearizable
// read, that of one key's count at the least cost.
func (p *Pager) confirm(ctx context.Context) (current int64, err error) {
	res, err := p.engine.Range(ctx, &store.RangeRequest{Key: []byte{0}, CountOnly: true})
	if err != nil {
		return 0, err
	}
	return res.Revision, nil
}
