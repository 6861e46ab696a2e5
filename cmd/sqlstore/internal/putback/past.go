package putback

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

// Past is what the keys of a store were at a point.
type Past interface {
	// Keys calls f with the rows of a span, in key order and without values, until f returns false.
	Keys(ctx context.Context, span backend.Span, f func(*backend.Row) bool) error
	// Rows returns the rows of keys that Keys has named, with values. They are in key order.
	Rows(ctx context.Context, keys []string) ([]*backend.Row, error)
}

// History is a [Past] that a server still has in its history. Errors: [backend.ErrCompacted],
// [backend.ErrFutureRevision], those of the server.
type History struct {
	Server   *source.Server
	Revision int64
}

var _ Past = (*History)(nil)

// Keys implements [Past].
func (h *History) Keys(ctx context.Context, span backend.Span, f func(*backend.Row) bool) error {
	return h.Server.Rows(ctx, source.Query{Span: span, Revision: h.Revision, KeysOnly: true}, f)
}

// Rows implements [Past].
func (h *History) Rows(ctx context.Context, keys []string) ([]*backend.Row, error) {
	rows := make([]*backend.Row, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i, key := range keys {
		group.Go(func() (err error) {
			rows[i], err = source.Get(ctx, h.Server, key, h.Revision)
			return err
		})
	}
	return rows, group.Wait()
}
