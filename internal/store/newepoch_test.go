package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// loser is a backend that loses history at chosen moments, as another replica finds out.
type loser struct {
	backend.Shared
	other   backend.Shared
	tail    atomic.Bool // behind the next tail, which says that this replica has fallen behind a purge
	list    atomic.Bool // before the next list of keys; from then on, tails wait for holds
	history atomic.Bool // before the next history
	holds   chan struct{}
	holding atomic.Bool
	lists   atomic.Int64 // of keys
}

func (b *loser) lose(ctx context.Context) error {
	clock, err := b.other.Clock(ctx)
	if err == nil {
		clock.Revision += 5
		_, err = b.other.RaiseEpoch(ctx, clock, 0)
	}
	return err
}

func (b *loser) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	t, err := b.Shared.Tail(ctx, q)
	if b.holding.Load() {
		<-b.holds
	}
	if err == nil && t.Clock.Revision > q.After && b.tail.CompareAndSwap(true, false) {
		t.Purged = t.Clock.Revision + 10
		err = b.lose(ctx)
	}
	return t, err
}

func (b *loser) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	if q.KeysOnly && b.lists.Add(1) == 1 && b.list.Load() {
		b.holding.Store(true)
		if err := b.lose(ctx); err != nil {
			return nil, backend.Clock{}, err
		}
	}
	return b.Shared.Range(ctx, q)
}

func (b *loser) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	if b.history.CompareAndSwap(true, false) {
		if err := b.lose(ctx); err != nil {
			return backend.History{}, err
		}
	}
	return b.Shared.History(ctx, q)
}

// newLoser returns a loser, and another connection to its database.
func newLoser(t *testing.T) (*loser, backend.Shared) {
	c := simdb.New(1, nil)
	a, b := c.Open(), c.Open()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return &loser{Shared: a, other: b}, b
}

// A replica that has fallen behind a purge starts over. If history is lost at that moment, watches end.
func TestNewEpochBehindAPurge(t *testing.T) {
	l, b := newLoser(t)
	s, other := openStore(t, l, Config{}), openStore(t, b, Config{})
	put(t, s, "k", "1")
	watch := watchAll(t, s, 0)
	eventually(t, "the index is loaded", s.index.Complete)
	l.tail.Store(true)
	put(t, other, "k", "2")
	eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 2 })
	for {
		r, err := watch.Next(within(t))
		if err != nil {
			t.Fatalf("the watch goes on in another history: %v", err)
		}
		if r.Canceled {
			return
		}
	}
}

// The index takes no keys of a new epoch that the replica has not noticed.
func TestLoadMeetsANewEpoch(t *testing.T) {
	l, _ := newLoser(t)
	hold := make(chan struct{})
	l.holds = hold
	l.list.Store(true)
	s := openStore(t, l, Config{})
	t.Cleanup(func() { close(hold) })
	eventually(t, "the index is loaded, or the loader asks again", func() bool {
		return l.lists.Load() > 1 || s.index.Complete()
	})
	if s.index.Complete() {
		t.Errorf("the index of epoch %d is loaded from epoch 2", s.Epoch())
	}
}

// A key's history is not that of a new epoch that the replica has not noticed.
func TestHistoryMeetsANewEpoch(t *testing.T) {
	l, _ := newLoser(t)
	s := openStore(t, l, Config{})
	put(t, s, "k", "1")
	l.history.Store(true)
	if h, err := s.History(within(t), []byte("k"), 1, 10, 1<<20); !errors.Is(err, backend.ErrOtherEpoch) {
		t.Errorf("%+v, %v", h, err)
	}
}
