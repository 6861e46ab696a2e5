package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// lose takes from a database all that was written above a revision.
func lose(t *testing.T, dsn string, above int64) {
	t.Helper()
	execute(t, dsn, "DELETE FROM object_versions WHERE resource_version > $1", above)
	execute(t, dsn, "UPDATE clock SET revision = $1, batch = (SELECT batch FROM object_versions WHERE "+
		"resource_version = $1)", above)
}

// counting is a backend that holds the answer to a count back.
type counting struct {
	backend.Shared
	counted, answer chan struct{}
}

func (b *counting) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	n, clock, err := b.Shared.Count(ctx, q)
	b.counted <- struct{}{}
	<-b.answer
	return n, clock, err
}

// A count that began before history was lost says nothing about the revision that has its number afterwards.
func TestCountsOfOneEpoch(t *testing.T) {
	dsn := pgserver.Database(t)
	b := &counting{openSharedOn(t, 1, dsn)[0].(backend.Shared), make(chan struct{}, 1), make(chan struct{})}
	s := openStore(t, b, Config{DisableIndex: true})
	kept := put(t, s, "a", "")
	last := put(t, s, "b", "")
	page := make(chan error, 1)
	go func() {
		res, err := s.Range(within(t), &RangeRequest{Key: []byte("a"), End: []byte{0}, Limit: 1, Revision: last})
		if err == nil && res.Count != 2 {
			t.Errorf("counted %d", res.Count)
		}
		page <- err
	}()
	<-b.counted
	lose(t, dsn, kept)
	eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 2 })
	if rev := put(t, s, "a", ""); rev != last {
		t.Fatalf("revision %d, want %d once more", rev, last)
	}
	close(b.answer)
	if err := <-page; err != nil {
		t.Fatal(err)
	}
	res, err := s.Range(within(t), &RangeRequest{Key: []byte("a\x00"), End: []byte{0}, Revision: last, CountOnly: true})
	if err != nil || res.Count != 0 {
		t.Errorf("%+v, %v; of the history that is there, only a has that revision", res, err)
	}
}

// A piece that was chosen before history was lost is not read from what has come in its place, whoever has heard of it.
func TestPiecesOfOneEpoch(t *testing.T) {
	dsn := pgserver.Database(t)
	all := openSharedOn(t, 2, dsn)
	s := openStore(t, all[0], Config{WindowBytes: 1})
	kept := put(t, s, "k", "1")
	put(t, s, "k", "2")
	last := put(t, s, "k", "lost")
	h := s.hub
	h.mu.Lock()
	h.readers = catchUpReads // the test is the reader
	h.mu.Unlock()
	st := s.NewWatchStream()
	t.Cleanup(st.Close)
	created(t, st, WatchRequest{Key: []byte("k"), StartRevision: last})
	h.feed(st)
	p, ready := h.choose()
	if p == nil || ready {
		t.Fatalf("chose %+v, %v", p, ready)
	}
	h.mu.Lock() // and so the end of a reset
	release := sync.OnceFunc(h.mu.Unlock)
	defer release()
	lose(t, dsn, kept)
	other := openStore(t, all[1], Config{})
	for range 3 {
		put(t, other, "k", "other")
	}
	eventually(t, "the new epoch is visible", func() bool { return s.Epoch() == 2 })
	if err := h.readPiece(within(t), p); !errors.Is(err, backend.ErrOtherEpoch) {
		t.Errorf("read %d events, %v", len(p.events), err)
	}
	p.failed = true
	release()
	h.deliver(p)
	if r := next(t, st); !r.Canceled || len(r.Events) > 0 {
		t.Errorf("got %+v", r)
	}
}

// What a change superseded is looked for in the history of the change.
func TestSupersededOfOneEpoch(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	put(t, s, "k", "1")
	rev := put(t, s, "k", "2")
	change := func(rev int64) *backend.Change {
		row := Row{Key: []byte("k"), ModRevision: rev}
		return &backend.Change{Row: row, Prev: &row} // changed twice
	}
	epoch := s.Epoch()
	if it, err := before(within(t), s.backend, change(rev), epoch); err != nil || it == nil || string(it.Value) != "1" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, err := before(within(t), s.backend, change(rev), epoch+1); !errors.Is(err, backend.ErrOtherEpoch) {
		t.Errorf("of another epoch: %v", err)
	}
	if _, err := before(within(t), s.backend, change(rev+5), epoch); !errors.Is(err, backend.ErrServerBehind) {
		t.Errorf("of a server that is behind: %v", err)
	}
}
