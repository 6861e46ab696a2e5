package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// lateConfirm delays its confirmation until its store closes and, for up to 100 ms, until the store has left.
type lateConfirm struct {
	backend.Shared
	once  sync.Once
	asked chan struct{} // closed when the first confirmation starts
	left  chan struct{} // closed when the store has left
}

func (b *lateConfirm) Confirm(ctx context.Context, m backend.Member) (backend.Head, error) {
	b.once.Do(func() { close(b.asked) }) // opening the store may confirm, too
	<-ctx.Done()
	select {
	case <-b.left:
	case <-time.After(100 * time.Millisecond):
	}
	return b.Shared.Confirm(context.WithoutCancel(ctx), m) // its COMMIT is already on the way
}

func (b *lateConfirm) Leave(ctx context.Context, id uint64) error {
	defer close(b.left)
	return b.Shared.Leave(ctx, id)
}

// A confirmation that is in progress when a replica closes does not add it to the members again.
func TestConfirmationBeforeLeaving(t *testing.T) {
	all := openSharedOn(t, 2, pgserver.Database(t))
	late := &lateConfirm{Shared: all[0].(backend.Shared), asked: make(chan struct{}), left: make(chan struct{})}
	s, other := openStore(t, late, Config{}), openStore(t, all[1], Config{})
	go func() { _, _ = replicaOf(s).confirm(context.Background()) }()
	<-late.asked
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.RefreshMembers(within(t)); err != nil {
		t.Fatal(err)
	}
	if m := other.Members(); len(m) != 1 {
		t.Errorf("members %v", m)
	}
}

// endlessConfirm never completes a confirmation.
type endlessConfirm struct {
	backend.Shared
	once  sync.Once
	asked chan struct{}
}

func (b *endlessConfirm) Confirm(ctx context.Context, _ backend.Member) (backend.Head, error) {
	b.once.Do(func() { close(b.asked) }) // opening the store may confirm, too
	<-ctx.Done()
	return backend.Head{}, ctx.Err()
}

// A call that waits for a confirmation when the store closes gets ErrClosed, not its caller's cancellation.
func TestConfirmationWhileTheStoreCloses(t *testing.T) {
	b := &endlessConfirm{Shared: openShared(t, 1)[0].(backend.Shared), asked: make(chan struct{})}
	s := openStore(t, b, Config{})
	answer := make(chan error)
	go func() {
		_, err := replicaOf(s).confirm(context.Background())
		answer <- err
	}()
	<-b.asked
	go func() { _ = s.Close() }()
	if err := <-answer; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestLeaderLeaves closes the leader midway between two heartbeats of another replica, in virtual time. The other one
// leads from that moment.
func TestLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simdb.New(1, nil)
		a, b := openStore(t, c.Open(), Config{}), openStore(t, c.Open(), Config{})
		time.Sleep(10*beatOther + beatOther/2)
		if !a.Leads() || b.Leader() != a.Leader() {
			t.Fatalf("the leader is %x, or %x according to the other replica", a.Leader(), b.Leader())
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); !b.Leads() {
			t.Errorf("the leader is %x", b.Leader())
		}
	})
}
