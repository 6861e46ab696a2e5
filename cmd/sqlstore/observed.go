package main

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// observed is a source whose rows move a progress display on.
type observed struct {
	backend.Source

	p    *transferProgress
	done transfer.Progress
}

// Rows implements [backend.Source].
func (o *observed) Rows(ctx context.Context, f func(*backend.Row) error) error {
	return o.Source.Rows(ctx, func(r *backend.Row) error {
		o.done.Rows++
		o.done.Bytes += r.Size()
		o.p.at(o.done)
		return f(r)
	})
}
