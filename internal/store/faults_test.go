package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// faults wraps a real backend and makes it fail or wait. Tests set its fields before the engine starts.
type faults struct {
	backend.Backend
	// beforeRange, beforeCount, beforeHistory and beforeRows run before the query; the query returns their error.
	beforeRange   func(ctx context.Context, q backend.RangeQuery) error
	beforeCount   func(ctx context.Context, q backend.RangeQuery) error
	beforeHistory func(ctx context.Context, q backend.HistoryQuery) error
	beforeRows    func(ctx context.Context, ids []backend.RowID) error
	beforeBegin   func(ctx context.Context) error
	// commit replaces a commit and decides its result; it may call through to run the real one.
	commit func(e *backend.Effects, through func() error) error
}

func (f *faults) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	if f.beforeRange != nil {
		if err := f.beforeRange(ctx, q); err != nil {
			return nil, backend.Clock{}, err
		}
	}
	return f.Backend.Range(ctx, q)
}

func (f *faults) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	if f.beforeCount != nil {
		if err := f.beforeCount(ctx, q); err != nil {
			return 0, backend.Clock{}, err
		}
	}
	return f.Backend.Count(ctx, q)
}

func (f *faults) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	if f.beforeHistory != nil {
		if err := f.beforeHistory(ctx, q); err != nil {
			return backend.History{}, err
		}
	}
	return f.Backend.History(ctx, q)
}

func (f *faults) Rows(ctx context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error) {
	if f.beforeRows != nil {
		if err := f.beforeRows(ctx, ids); err != nil {
			return nil, backend.Clock{}, err
		}
	}
	return f.Backend.Rows(ctx, ids, bytes)
}

func (f *faults) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if f.beforeBegin != nil {
		if err := f.beforeBegin(ctx); err != nil {
			return nil, err
		}
	}
	tx, err := f.Backend.Begin(ctx, n)
	if err != nil {
		return nil, err
	}
	return &faultyTx{Tx: tx, f: f}, nil
}

type faultyTx struct {
	backend.Tx
	f *faults
}

func (t *faultyTx) Commit(ctx context.Context, e *backend.Effects) error {
	if t.f.commit == nil {
		return t.Tx.Commit(ctx, e)
	}
	called := false
	err := t.f.commit(e, func() error {
		called = true
		return t.Tx.Commit(ctx, e)
	})
	if !called {
		t.Tx.Rollback()
	}
	return err
}

// slowLoad slows down the loading of the index: each chunk waits for a token.
func slowLoad(b backend.Backend) (*faults, chan struct{}) {
	tokens := make(chan struct{}, 1)
	f := &faults{Backend: b}
	f.beforeRange = func(ctx context.Context, q backend.RangeQuery) error {
		if q.Limit != slowRows || !q.KeysOnly {
			return nil
		}
		select {
		case <-tokens:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f, tokens
}

// slowRows is a chunk size that no other read of the tests uses.
const slowRows = 7
