package paging

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// TestFirstKey makes several replicas need the first key at the same time: they make one, and each opens what any has
// sealed.
func TestFirstKey(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		fill(t, all[0], "/p/", 10)
		wantKeys(t, all[0], 0)
		mustList(t, all[0], "/p/", ListOptions{}) // needs none
		if _, _, err := onePage(t, all[0], "/p/", ListOptions{Continue: seal(1, aead(t, testKey), "/p/",
			place{})}); !errors.Is(err, ErrInvalid) {
			t.Errorf("a token without a key: %v", err)
		}
		wantKeys(t, all[0], 0)
		var pagers []*Pager
		for i := range 8 {
			r := all[i%len(all)]
			pagers = append(pagers, New(r.Store, r.backend))
		}
		tokens := make([]string, len(pagers))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, p := range pagers {
			wg.Go(func() {
				<-start
				page, err := p.List(within(t), []byte("/p/"), ListOptions{Limit: 3}, func([]*store.Row) error {
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				tokens[i] = page.Continue
			})
		}
		close(start)
		wg.Wait()
		wantKeys(t, all[0], 1)
		for _, token := range tokens {
			for i, p := range pagers {
				if page, err := p.List(within(t), []byte("/p/"), ListOptions{Limit: 3, Continue: token},
					func([]*store.Row) error { return nil }); err != nil || page.Remaining != 4 {
					t.Errorf("pager %d: %+v, %v", i, page, err)
				}
			}
		}
	})
}

func wantKeys(t *testing.T, r *replica, want int) {
	t.Helper()
	keys, err := r.backend.TokenKeys(within(t))
	if err != nil || len(keys) != want {
		t.Errorf("%d keys, want %d, %v", len(keys), want, err)
	}
}

func rotate(t *testing.T, r *replica, revoke bool, want int64) {
	t.Helper()
	if id, err := Rotate(within(t), r.backend, revoke); err != nil || id != want {
		t.Fatalf("rotated to %d, %v; want %d", id, err, want)
	}
}

// idOf is the id of the key that a token is sealed with.
func idOf(t *testing.T, token string) int64 {
	t.Helper()
	s, ok := parse(token)
	if !ok {
		t.Fatalf("%q is not a token", token)
	}
	return s.id
}

// TestRotationIsNoticed opens on each replica what another one has sealed with a key that is new to it.
func TestRotationIsNoticed(t *testing.T) {
	all := onPostgres(t, 2, store.Config{})
	fill(t, all[0], "/p/", 30)
	for id := int64(1); id < 6; id++ {
		_, old := mustList(t, all[1], "/p/", ListOptions{Limit: 3})
		rotate(t, all[0], false, id+1)
		all[0].pager = New(all[0].Store, all[0].backend) // as after a restart
		_, page := mustList(t, all[0], "/p/", ListOptions{Limit: 3})
		if got := idOf(t, page.Continue); got != id+1 {
			t.Fatalf("sealed with key %d", got)
		}
		rows, next := mustList(t, all[1], "/p/", ListOptions{Limit: 3, Continue: page.Continue})
		if len(rows) != 3 || idOf(t, next.Continue) != id+1 {
			t.Fatalf("%d rows, then %+v", len(rows), next)
		}
		mustList(t, all[0], "/p/", ListOptions{Continue: old.Continue}) // a token of the older key still opens
	}
}

// TestRotationTakesEffect waits until another process has noticed a rotation and a revocation.
func TestRotationTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := onSQLite(t, store.Config{})
		fill(t, r, "/p/", 10)
		first := func() string {
			t.Helper()
			_, page := mustList(t, r, "/p/", ListOptions{Limit: 3})
			return page.Continue
		}
		one := first()
		rotate(t, r, false, 2)
		if id := idOf(t, first()); id != 1 {
			t.Errorf("sealed with key %d, though nothing was read since", id)
		}
		pass(keysFresh)
		two := first()
		if id := idOf(t, two); id != 2 {
			t.Errorf("sealed with key %d", id)
		}
		mustList(t, r, "/p/", ListOptions{Continue: one})
		rotate(t, r, true, 3)
		wantKeys(t, r, 1)
		pass(keysFresh)
		if id := idOf(t, first()); id != 3 {
			t.Errorf("sealed with key %d", id)
		}
		for _, token := range []string{one, two} {
			if _, _, err := onePage(t, r, "/p/", ListOptions{Continue: token}); !errors.Is(err, ErrInvalid) ||
				err.Error() != errToken.Error() {
				t.Errorf("of a revoked key: %v", err)
			}
		}
		r.close(t)
	})
}

// countedKeys counts the queries to the database, and can make them fail.
type countedKeys struct {
	backend.Backend
	questions atomic.Int64
	broken    atomic.Bool
}

var errBroken = errors.New("the database does not answer")

func (c *countedKeys) TokenKeys(ctx context.Context) ([]backend.TokenKey, error) {
	c.questions.Add(1)
	if c.broken.Load() {
		return nil, errBroken
	}
	return c.Backend.TokenKeys(ctx)
}

// TestGarbageIsCheap sends many forged tokens: they cause hardly any queries.
func TestGarbageIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := onSQLite(t, store.Config{})
		fill(t, r, "/p/", 10)
		counted := &countedKeys{Backend: r.backend}
		r.pager = New(r.Store, counted)
		mustList(t, r, "/p/", ListOptions{Limit: 3})
		rotate(t, r, true, 2)
		pass(keysFresh)
		mustList(t, r, "/p/", ListOptions{Limit: 3})
		garbage := func(id int64) {
			t.Helper()
			if _, _, err := onePage(t, r, "/p/", ListOptions{Continue: seal(id, aead(t, testKey), "/p/",
				place{})}); !errors.Is(err, ErrInvalid) {
				t.Errorf("of key %d: %v", id, err)
			}
		}
		before := counted.questions.Load()
		for range 100 {
			garbage(1) // was dropped
			garbage(2) // is another
			garbage(0)
			garbage(-1)
		}
		if n := counted.questions.Load() - before; n != 0 {
			t.Errorf("%d queries for keys that cannot exist", n)
		}
		for round := range int64(10) {
			began, before := time.Now(), counted.questions.Load()
			var wg sync.WaitGroup
			for i := range int64(200) {
				wg.Go(func() { garbage(3 + i + round) })
			}
			wg.Wait()
			if took, n := time.Since(began), counted.questions.Load()-before; n > 2 || took > 2*keysPause {
				t.Errorf("%d queries in %v for 200 tokens", n, took)
			}
		}
		r.close(t)
	})
}

// TestKeysOutliveTheDatabase continues a list while the keys cannot be read.
func TestKeysOutliveTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := onSQLite(t, store.Config{})
		fill(t, r, "/p/", 10)
		counted := &countedKeys{Backend: r.backend}
		counted.broken.Store(true)
		r.pager = New(r.Store, counted)
		if rows, _, err := onePage(t, r, "/p/", ListOptions{Limit: 3}); !errors.Is(err, errBroken) || len(rows) > 0 {
			t.Errorf("before there is a key: %d rows, %v", len(rows), err)
		}
		counted.broken.Store(false)
		_, page := mustList(t, r, "/p/", ListOptions{Limit: 3})
		counted.broken.Store(true)
		pass(keysFresh)
		before := counted.questions.Load()
		for range 10 {
			mustList(t, r, "/p/", ListOptions{Limit: 3, Continue: page.Continue})
		}
		if n := counted.questions.Load() - before; n != 1 {
			t.Errorf("%d concurrent queries", n)
		}
		counted.broken.Store(false)
		rotate(t, r, false, 2)
		pass(keysRetry)
		if _, page := mustList(t, r, "/p/", ListOptions{Limit: 3}); idOf(t, page.Continue) != 2 {
			t.Error("keys are not read again")
		}
		r.close(t)
	})
}

// TestDamagedKey finds an invalid key in the database, and the error says what to do.
func TestDamagedKey(t *testing.T) {
	r := onSQLite(t, store.Config{})
	fill(t, r, "/p/", 10)
	if err := r.backend.AddTokenKey(within(t), 0, []byte("short")); err != nil {
		t.Fatal(err)
	}
	_, _, err := onePage(t, r, "/p/", ListOptions{Limit: 3})
	if err == nil || !strings.Contains(err.Error(), "rotate --revoke") || strings.Contains(err.Error(), "short") {
		t.Errorf("with a damaged key: %v", err)
	}
	rotate(t, r, true, 2)
	mustList(t, r, "/p/", ListOptions{Limit: 3})
}

// TestRotateByMany rotates from several processes concurrently: each makes a key, or reports that it did not.
func TestRotateByMany(t *testing.T) {
	all := onPostgres(t, 2, store.Config{})
	var made sync.Map
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			id, err := Rotate(within(t), all[i%2].backend, false)
			if _, twice := made.LoadOrStore(id, true); twice || err != nil {
				t.Errorf("made %d, %v", id, err)
			}
		})
	}
	wg.Wait()
	keys, err := all[0].backend.TokenKeys(within(t))
	if err != nil || len(keys) != 6 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	secrets := map[string]bool{}
	for _, k := range keys {
		secrets[fmt.Sprintf("%x", k.Key)] = true
	}
	if len(secrets) != 6 {
		t.Error("keys are alike")
	}
}
