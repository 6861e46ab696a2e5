package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// replaced is a backend whose next Begin is answered by a different server from the one that it was sent to. The test
// decides when, and until then nothing else is answered.
type replaced struct {
	backend.Shared
	asked    chan struct{}
	answer   chan struct{}
	next     atomic.Bool
	other    atomic.Bool
	standing atomic.Pointer[chan struct{}]
}

// name sets the origin of an answer to another server once there is one.
func (b *replaced) name(o *backend.Origin) {
	if b.other.Load() {
		o.Server.Timeline += 100
	}
}

func (b *replaced) wait() {
	if c := b.standing.Load(); c != nil {
		<-*c
	}
}

func (b *replaced) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if b.next.CompareAndSwap(true, false) {
		close(b.asked)
		<-b.answer
		defer func() { close(*b.standing.Swap(nil)) }()
	}
	tx, err := b.Shared.Begin(ctx, n)
	if err == nil {
		b.name(&tx.Loaded().Tail.Origin)
	}
	return tx, err
}

func (b *replaced) Head(ctx context.Context) (backend.Head, error) {
	b.wait()
	h, err := b.Shared.Head(ctx)
	b.name(&h.Origin)
	return h, err
}

func (b *replaced) Confirm(ctx context.Context, m backend.Member) (backend.Head, error) {
	h, err := b.Shared.Confirm(ctx, m)
	b.name(&h.Origin)
	return h, err
}

func (b *replaced) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	b.wait()
	t, err := b.Shared.Tail(ctx, q)
	b.name(&t.Origin)
	return t, err
}

func (b *replaced) Unconfirmed(o backend.Origin) (d time.Duration) {
	if o.Server.Timeline > 100 {
		o.Server.Timeline -= 100
	}
	return b.Shared.Unconfirmed(o)
}

// TestBatchWhileTheServerIsReplaced has a batch take the clock of a server that lacks revisions: some that the previous
// server acknowledged, and some that were published after the batch asked. The batch is not evaluated on what is lost,
// and the two histories do not mix.
func TestBatchWhileTheServerIsReplaced(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1, 2, 4} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			dsn := pgserver.Database(t)
			all := openSharedOn(t, 3, dsn)
			back := &replaced{Shared: all[1].(backend.Shared), asked: make(chan struct{}), answer: make(chan struct{})}
			a, b := openStore(t, all[0], Config{}), openStore(t, back, Config{})
			retained := put(t, a, "k", "1")
			eventually(t, "the index is complete", func() bool { return complete(b) && b.Revision() == retained })
			back.next.Store(true)
			wrote := make(chan error, 1)
			go func() {
				_, err := b.Put(within(t), &PutRequest{Key: []byte("k"), Value: []byte("new")})
				wrote <- err
			}()
			<-back.asked
			put(t, a, "k", "2")
			lost := put(t, a, "k", "3")
			eventually(t, "the other replica's writes arrive", func() bool { return b.Revision() == lost })
			standing := make(chan struct{})
			back.standing.Store(&standing)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			lose(t, dsn, retained)
			back.other.Store(true)
			c := openStore(t, all[2], Config{})
			for i := range others {
				put(t, c, fmt.Sprint("other", i), "")
			}
			close(back.answer)
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			for what, s := range map[string]*Store{"the writer": b, "another replica": c} {
				if row := get(t, s, "k", 0); row.Version != 2 || string(row.Value) != "new" ||
					row.CreateRevision != retained || row.PrevRevision != retained {
					t.Errorf("%s reads %+v", what, row)
				}
				for i := range others {
					if get(t, s, fmt.Sprint("other", i), 0) == nil {
						t.Errorf("%s lacks key %d", what, i)
					}
				}
			}
			if b.Epoch() == 1 {
				t.Error("no replica noticed the lost history")
			}
		})
	}
}

// resetting is an operation that resets the store once while its batch is evaluated, and then puts a key.
type resetting struct {
	s    *Store
	done bool
	was  *index.Item
}

func (o *resetting) size() int64            { return 1 }
func (o *resetting) needs(n *backend.Needs) { n.Keys = append(n.Keys, []byte("k")) }

func (o *resetting) evaluate(e *evaluator) error {
	if r := replicaOf(o.s); !o.done {
		t, err := r.b.Tail(e.ctx, r.ask().TailQuery)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		o.done = true
		if err := r.reset(e.ctx, &t); err != nil {
			return err
		}
	}
	o.was = e.live("k")
	_, err := e.put(&PutRequest{Key: []byte("k")})
	return err
}

// TestResetWhileABatchIsEvaluated empties the index under a batch that reads it.
func TestResetWhileABatchIsEvaluated(t *testing.T) {
	s := openReplicas(t, 1, Config{})[0]
	put(t, s, "k", "v")
	eventually(t, "the index is complete", func() bool { return complete(s) })
	op := &resetting{s: s}
	if _, err := s.seq.do(within(t), op); err != nil {
		t.Fatal(err)
	}
	if row := get(t, s, "k", 0); op.was == nil || row.Version != 2 {
		t.Errorf("put replaced %v, the row is %+v", op.was, row)
	}
}
