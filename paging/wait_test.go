package paging

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// reads are all reads at a revision, as functions that return the revision that they read.
func reads(t *testing.T, r *replica, revision int64) map[string]func() (int64, error) {
	version := fmt.Sprint(revision)
	listed := func(o ListOptions) func() (int64, error) {
		return func() (int64, error) {
			_, page, err := onePage(t, r, "/p/", o)
			return page.Revision, err
		}
	}
	return map[string]func() (int64, error){
		"not older than": listed(ListOptions{ResourceVersion: version}),
		"not older than, page": listed(ListOptions{
			ResourceVersion: version, ResourceVersionMatch: "NotOlderThan",
			Limit: 1,
		}),
		"exact":               listed(ListOptions{ResourceVersion: version, ResourceVersionMatch: "Exact"}),
		"exact, as a page is": listed(ListOptions{ResourceVersion: version, Limit: 1}),
		"a key, not older than": func() (int64, error) {
			_, at, err := r.pager.Get(within(t), []byte("/p/a"), GetOptions{ResourceVersion: version})
			return at, err
		},
	}
}

// TestTooLarge waits for a revision that does not come, until the timeout.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := onSQLite(t, store.Config{})
		current := put(t, r, "/p/a", "v")
		for what, read := range reads(t, r, 1000) {
			began := time.Now()
			_, err := read()
			e, ok := errors.AsType[*TooLargeError](err)
			if !ok || !errors.Is(err, ErrTooLarge) || *e != (TooLargeError{Requested: 1000, Current: current}) ||
				time.Since(began) != waitTimeout {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
			if err != nil && err.Error() != "Too large resource version: 1000, current: 2" {
				t.Errorf("%s: %q", what, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := r.pager.Get(ctx, []byte("k"), GetOptions{ResourceVersion: "1000"}); !errors.Is(err,
			context.DeadlineExceeded) || errors.Is(err, ErrTooLarge) {
			t.Errorf("a request that ended first: %v", err)
		}
		r.close(t)
	})
}

// TestWaitEnds waits for a revision that comes: the answer follows at once.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := onSQLite(t, store.Config{})
		for what := range reads(t, r, 0) {
			next := r.Revision() + 1
			read := reads(t, r, next)[what]
			began := time.Now()
			var at int64
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				at, err = read()
			}()
			pass(waitTimeout - 1)
			synctest.Wait()
			put(t, r, "/p/a", what)
			<-done
			if err != nil || at != next || time.Since(began) >= waitTimeout {
				t.Errorf("%s: at %d, %v, after %v; want %d", what, at, err, time.Since(began), next)
			}
		}
		r.close(t)
	})
}

// observed is an engine that reports when a wait for a revision begins.
type observed struct {
	*store.Store
	waits chan int64
}

func (e observed) AwaitRevision(ctx context.Context, revision int64) (int64, error) {
	e.waits <- revision
	return e.Store.AwaitRevision(ctx, revision)
}

// TestWaitForAnotherReplica waits on one replica for a write through the other; there is no wait for an earlier write.
func TestWaitForAnotherReplica(t *testing.T) {
	all := onPostgres(t, 2, store.Config{})
	waits := make(chan int64, 1)
	all[1].pager = New(observed{all[1].Store, waits}, all[1].backend)
	for what := range reads(t, all[1], 0) {
		next := all[0].Revision() + 1
		read := reads(t, all[1], next)[what]
		done := make(chan struct{})
		var at int64
		var err error
		go func() {
			defer close(done)
			at, err = read()
		}()
		if revision := <-waits; revision != next {
			t.Fatalf("%s: waits for %d, want %d", what, revision, next)
		}
		put(t, all[0], "/p/a", what)
		if <-done; err != nil || at != next {
			t.Errorf("%s: at %d, %v; want %d", what, at, err, next)
		}
		written := put(t, all[0], "/p/a", "again")
		if at, err := reads(t, all[1], written)[what](); err != nil || at != written {
			t.Errorf("%s: at %d, %v; want %d", what, at, err, written)
		}
		select {
		case revision := <-waits:
			t.Errorf("%s: waited for %d, which existed", what, revision)
		default:
		}
	}
}

func TestGet(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		for i := range 20 {
			a, b := all[i%len(all)], all[(i+1)%len(all)]
			revision := put(t, a, "/p/a", fmt.Sprint(i))
			for _, version := range []string{"", fmt.Sprint(revision), "1", "0"} {
				row, at, err := b.pager.Get(within(t), []byte("/p/a"), GetOptions{ResourceVersion: version})
				switch {
				case err != nil:
					t.Fatalf("version %q: %v", version, err)
				case version == "0" || version == "1": // may lag
				case row == nil || string(row.Value) != fmt.Sprint(i) || at != revision:
					t.Fatalf("version %q after the put at %d: %v at %d", version, revision, row, at)
				}
				if row, _, err := b.pager.Get(within(t), []byte("/p/none"),
					GetOptions{ResourceVersion: version}); row != nil || err != nil {
					t.Fatalf("an absent key, version %q: %v, %v", version, row, err)
				}
			}
		}
		compact(t, all[0], all[0].Revision())
		if row, _, err := all[0].pager.Get(within(t), []byte("/p/a"), GetOptions{ResourceVersion: "2"}); row == nil ||
			err != nil {
			t.Errorf("not older than a compacted version: %v, %v", row, err)
		}
	})
}
