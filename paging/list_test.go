package paging

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/store"
)

// fill writes n keys below a prefix, each at its own revision, and returns the last one.
func fill(t *testing.T, r *replica, prefix string, n int) (revision int64) {
	t.Helper()
	for i := range n {
		revision = put(t, r, fmt.Sprintf("%s%04d", prefix, i), "old")
	}
	return revision
}

// names are the keys that fill writes, from the first to before the last.
func names(prefix string, first, last int) (keys []string) {
	for i := first; i < last; i++ {
		keys = append(keys, fmt.Sprintf("%s%04d", prefix, i))
	}
	return keys
}

func TestExpired(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		a, b := all[0], all[len(all)-1]
		first := fill(t, a, "/p/", 30)
		_, page := mustList(t, a, "/p/", ListOptions{Limit: 10})
		if page.Revision != first || page.Remaining != 20 {
			t.Fatalf("first page %+v", page)
		}
		put(t, b, "/p/0005x", "after the place where the list continues")
		put(t, b, "/p/0015x", "new")
		last := put(t, b, "/q/", "new")
		compact(t, a, last)

		for _, r := range []*replica{a, b} {
			for _, o := range []ListOptions{
				{ResourceVersion: fmt.Sprint(first), ResourceVersionMatch: "Exact"},
				{ResourceVersion: fmt.Sprint(first), Limit: 10},
				{ResourceVersion: "1", ResourceVersionMatch: "Exact", Limit: 1},
			} {
				rows, _, err := onePage(t, r, "/p/", o)
				e, ok := errors.AsType[*ExpiredError](err)
				if !ok || !errors.Is(err, ErrExpired) || e.Continue == "" || len(rows) > 0 {
					t.Fatalf("%+v: %d rows, %v", o, len(rows), err)
				}
				if rows, page := mustList(t, r, "/p/", ListOptions{
					Limit:    o.Limit,
					Continue: e.Continue,
				}); page.Revision != last ||
					len(rows)+int(page.Remaining) != 32 || string(rows[0].Key) != "/p/0000" {
					t.Errorf("%+v, begun again: %d rows, %+v", o, len(rows), page)
				}
			}
			if rows, page := mustList(t, r, "/p/", ListOptions{ResourceVersion: fmt.Sprint(first)}); len(rows) != 32 ||
				page.Revision != last {
				t.Errorf("not older than a compacted version: %d rows, %+v", len(rows), page)
			}
			_, _, err := onePage(t, r, "/p/", ListOptions{Limit: 10, Continue: page.Continue})
			e, ok := errors.AsType[*ExpiredError](err)
			if !ok || e.Continue == "" {
				t.Fatalf("continue below the compacted revision: %v", err)
			}
			if _, _, err := onePage(t, r, "/q/", ListOptions{Limit: 10, Continue: e.Continue}); !errors.Is(err,
				ErrInvalid) {
				t.Errorf("the token for the rest opens for another list: %v", err)
			}
			rows, rest := mustList(t, r, "/p/", ListOptions{Limit: 7, Continue: e.Continue})
			want := slices.Concat(names("/p/", 10, 16), []string{"/p/0015x"})
			if !slices.Equal(keysOf(rows), want) || rest.Revision != last || rest.Remaining != 14 {
				t.Errorf("the rest begins with %q, %+v", keysOf(rows), rest)
			}
			put(t, a, "/p/0016x", "too late")
			rows, end := mustList(t, b, "/p/", ListOptions{Continue: rest.Continue})
			if !slices.Equal(keysOf(rows), names("/p/", 16, 30)) || end != (Page{Revision: last}) {
				t.Errorf("the rest is not one list: %q, %+v", keysOf(rows), end)
			}
			if _, err := a.Delete(within(t), &store.DeleteRequest{Key: []byte("/p/0016x")}); err != nil {
				t.Fatal(err)
			}
			last = put(t, a, "/q/", "again")
		}
	})
}

// TestNewestAndAny lists on one replica after a write on the other.
func TestNewestAndAny(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		for i := range 50 {
			revision := put(t, all[i%len(all)], "/p/a", fmt.Sprint(i))
			other := all[(i+1)%len(all)]
			for _, o := range []ListOptions{
				{},
				{Limit: 5},
				{ResourceVersion: fmt.Sprint(revision)},
				{ResourceVersion: fmt.Sprint(revision), ResourceVersionMatch: "Exact"},
			} {
				rows, page := mustList(t, other, "/p/", o)
				if len(rows) != 1 || string(rows[0].Value) != fmt.Sprint(i) || page != (Page{Revision: revision}) {
					t.Fatalf("%+v after the put at %d: %d rows, %+v", o, revision, len(rows), page)
				}
			}
			if _, page := mustList(t, other, "/p/", ListOptions{ResourceVersion: "0"}); page.Revision > revision ||
				page.Revision < 1 {
				t.Fatalf("any version is %d", page.Revision)
			}
		}
	})
}

func TestEmptyList(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		for _, prefix := range []string{"", "/p/", "\xff"} {
			for _, o := range []ListOptions{{}, {Limit: 1}, {ResourceVersion: "0", Limit: 1}, {ResourceVersion: "1"}} {
				if rows, page := mustList(t, all[0], prefix, o); len(rows) != 0 || page != (Page{Revision: 1}) {
					t.Errorf("%q, %+v: %d rows, %+v", prefix, o, len(rows), page)
				}
			}
		}
	})
}

// TestForeignTokens passes a list's token to other lists, and a changed one to the same list: each is refused in the
// same words, which reveal nothing.
func TestForeignTokens(t *testing.T) {
	r := onSQLite(t, store.Config{})
	fill(t, r, "/p/", 5)
	_, page := mustList(t, r, "/p/", ListOptions{Limit: 2})
	foreign := func(prefix, token string) {
		t.Helper()
		_, _, err := onePage(t, r, prefix, ListOptions{Continue: token})
		if !errors.Is(err, ErrInvalid) || err.Error() != errToken.Error() {
			t.Errorf("list of %q with token %q: %v", prefix, token, err)
		}
	}
	foreign("", page.Continue)
	foreign("/p/q/", page.Continue)
	for _, token := range []string{
		"x", page.Continue + "A", page.Continue[1:],
		"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi8uLi8ifQ",
		seal(1, aead(t, testKey), "/p/", place{start: "a"}), seal(99, aead(t, testKey), "/p/", place{start: "a"}),
		seal(-1, aead(t, testKey), "/p/", place{start: "a"}),
	} {
		foreign("/p/", token)
	}
}

// TestSendFails makes the receiver of the rows fail: the list ends with that error.
func TestSendFails(t *testing.T) {
	r := onSQLite(t, store.Config{})
	fill(t, r, "/p/", 30)
	enough := errors.New("enough")
	calls := 0
	_, err := r.pager.List(within(t), []byte("/p/"), ListOptions{}, func([]*store.Row) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%v after %d chunks", err, calls)
	}
}

// TestOvertaken compacts and purges the rows of a list in progress: the list ends with an error, and never lacks rows.
func TestOvertaken(t *testing.T) {
	for name, disabled := range map[string]bool{"index": false, "no index": true} {
		t.Run(name, func(t *testing.T) {
			var later atomic.Int64
			began := time.Now()
			now := func() time.Time { return began.Add(time.Duration(later.Load())) }
			// values come from the database
			r := onSQLite(t, store.Config{CacheBytes: 1, DisableIndex: disabled, Now: now})
			const n = 60
			fill(t, r, "/p/", n)
			for _, goesOn := range []bool{false, true} {
				o, sent := ListOptions{}, 0
				if goesOn {
					_, page := mustList(t, r, "/p/", ListOptions{Limit: 5})
					o.Continue = page.Continue
				}
				_, err := r.pager.List(within(t), []byte("/p/"), o, func(rows []*store.Row) error {
					if sent == 0 {
						fill(t, r, "/p/", n)
						compact(t, r, r.Revision())
						later.Add(int64(store.StreamPinLimit)) // a purge does not wait for so slow a client
						if res, err := r.PurgeStep(within(t), 10*n); err != nil || !res.Done {
							t.Errorf("purged %+v, %v", res, err)
						}
					}
					sent += len(rows)
					return nil
				})
				e, ok := errors.AsType[*ExpiredError](err)
				if !ok || (e.Continue == "") != (o.Continue == "") || sent == 0 || sent >= n {
					t.Errorf("%+v: %d rows sent, %v", o, sent, err)
				}
			}
		})
	}
}

// TestLostHistory removes revisions from the database, like a failover to a standby that lacks them: an earlier list
// does not continue among the rows that now have these revisions.
func TestLostHistory(t *testing.T) {
	all := onPostgres(t, 2, store.Config{})
	last := fill(t, all[0], "/p/", 20)
	_, page := mustList(t, all[1], "/p/", ListOptions{Limit: 5})
	if page.Revision != last {
		t.Fatalf("first page %+v", page)
	}
	dsn := all[0].dsn
	conn, err := pgx.Connect(within(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(within(t)) }()
	for _, q := range []string{
		fmt.Sprintf("DELETE FROM object_versions WHERE resource_version > %d", last-5),
		fmt.Sprintf("UPDATE clock SET revision = %d", last-5),
	} {
		if _, err := conn.Exec(within(t), q); err != nil {
			t.Fatal(err)
		}
	}
	// now the old revision exists again, with other rows; a write may come before the store has noticed the loss
	for i := range 10 {
		req := &store.PutRequest{Key: fmt.Appendf(nil, "/p/new%d", i)}
		_, err := all[0].Put(within(t), req)
		for errors.Is(err, store.ErrUnavailable) {
			_, err = all[0].Put(within(t), req)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range all {
		mustList(t, r, "/p/", ListOptions{}) // by now it has noticed the loss
		sent, _, err := onePage(t, r, "/p/", ListOptions{Continue: page.Continue})
		e, ok := errors.AsType[*ExpiredError](err)
		if !ok || e.Continue == "" || len(sent) > 0 {
			t.Fatalf("replica %d: %v after the rows %q", i, err, keysOf(sent))
		}
		rows, rest := mustList(t, r, "/p/", ListOptions{Continue: e.Continue})
		if len(rows) != 20 || rest.Revision != r.Revision() {
			t.Errorf("replica %d has %q, %+v", i, keysOf(rows), rest)
		}
	}
}
