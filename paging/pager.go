package paging

import (
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/internal/store"
)

// Engine is what a Pager needs from a store.
type Engine interface {
	Range(ctx context.Context, req *store.RangeRequest) (*store.RangeResult, error)
	RangeStream(
		ctx context.Context, req *store.RangeRequest, send func(rows []*store.Row, last bool) error,
	) (*store.RangeResult, error)
	AwaitRevision(ctx context.Context, revision int64) (current int64, err error)
	Revision() int64
	Epoch() int64
}

// Pager implements the reads of the list/watch API.
type Pager struct {
	engine Engine
	keys   *keyring
}

// New returns a Pager over e.
func New(e Engine, keys TokenKeys) *Pager {
	return &Pager{engine: e, keys: newKeyring(keys)}
}

// List passes the rows whose keys begin with prefix to send, in key order and bounded chunks, all at one revision.
// After an error, the rows sent so far are not the complete list. Errors: [ErrInvalid], [ErrExpired], [ErrTooLarge],
// the engine's, send's.
func (p *Pager) List(ctx context.Context, prefix []byte, o ListOptions, send func(rows []*store.Row) error) (Page,
	error,
) {
	l, err := p.plan(ctx, string(prefix), o)
	if err != nil {
		return Page{}, err
	}
	return l.run(ctx, send)
}

// Get returns the row of key, or nil if there is none, and the revision of that result. Errors: the same as List,
// except for send's.
func (p *Pager) Get(ctx context.Context, key []byte, o GetOptions) (*store.Row, int64, error) {
	r, version, err := decide(ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
	})
	if err != nil {
		return nil, 0, err
	}
	req := &store.RangeRequest{Key: key, Serializable: r == anyVersion || r == notOlderThan}
	if r == exact {
		req.Revision = version
	}
	if err := p.await(ctx, version); err != nil {
		return nil, 0, err
	}
	res, err := p.engine.Range(ctx, req)
	switch {
	case errors.Is(err, store.ErrCompacted), errors.Is(err, store.ErrFutureRevision): // that one existed, and was lost
		return nil, 0, &ExpiredError{}
	case err != nil:
		return nil, 0, err
	}
	revision := res.Revision
	if r == exact {
		revision = version
	}
	if len(res.Rows) == 0 {
		return nil, revision, nil
	}
	return res.Rows[0], revision, nil
}
