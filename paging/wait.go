package paging

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// waitTimeout is how long a read waits for a revision that is not written yet, as long as in Kubernetes' watch cache.
const waitTimeout = 3 * time.Second

// await returns when this replica has reached the revision. If it is above the known one, another replica may have
// written it: await queries the database once, and then waits for the store's notification. Errors: [*TooLargeError],
// the engine's, ctx's.
func (p *Pager) await(ctx context.Context, revision int64) error {
	if revision <= p.engine.Revision() {
		return nil
	}
	if current, err := p.confirm(ctx); err != nil || revision <= current {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	current, err := p.engine.AwaitRevision(limited, revision)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &TooLargeError{Requested: revision, Current: current}
	}
	return err
}

// confirm returns the current revision once this replica has everything that any replica had acknowledged before the
// call. Any linearizable read does that; counting one key is the cheapest.
func (p *Pager) confirm(ctx context.Context) (current int64, err error) {
	res, err := p.engine.Range(ctx, &store.RangeRequest{Key: []byte{0}, CountOnly: true})
	if err != nil {
		return 0, err
	}
	return res.Revision, nil
}
