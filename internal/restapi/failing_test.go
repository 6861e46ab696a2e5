package restapi_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// noIndex makes every read go to the database.
var noIndex = store.Config{DisableIndex: true}

// failing is a database whose range reads fail after a number of successes.
type failing struct {
	backend.Backend
	after atomic.Int64 // 0: never
}

func (f *failing) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	if n := f.after.Load(); n > 0 {
		if n == 1 {
			return nil, backend.Clock{}, fmt.Errorf("range: %w", &backend.Refusal{Reason: "as the test wants it"})
		}
		f.after.Store(n - 1)
	}
	return f.Backend.Range(ctx, q)
}
