package store

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// TestTokens makes tokens through one store and uses them through another one. Each change that ends them ends them
// everywhere.
func TestTokens(t *testing.T) {
	eachAuth(t, func(t *testing.T, all []*Store) {
		a, b := all[0], last(all)
		add := func(name, user string, checked uint64) error {
			return a.AddToken(within(t), name, user, checked, time.Hour)
		}
		if err := add("t", "u", a.Auth().Revision()); !errors.Is(err, auth.ErrNotEnabled) {
			t.Errorf("not enabled: %v", err)
		}
		enable(t, a)
		change(t, a, auth.AddUser{Name: "cert", NoPassword: true})
		for user, want := range map[string]error{"nobody": auth.ErrFailed, "cert": auth.ErrFailed, "u": nil} {
			if err := add("of "+user, user, a.Auth().Revision()); !errors.Is(err, want) {
				t.Errorf("token of %s: %v, want %v", user, err, want)
			}
		}
		if err := add("late", "u", a.Auth().Revision()-1); !errors.Is(err, auth.ErrOldRevision) {
			t.Errorf("a password checked before a change: %v", err)
		}
		if _, err := b.TokenUser(within(t), "late"); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("an unknown token: %v", err)
		}
		for i, ends := range [][]auth.Change{
			{auth.ChangePassword{Name: "u", Hash: []byte("new")}},
			{auth.DeleteUser{Name: "u"}, auth.AddUser{Name: "u"}, auth.GrantRole{User: "u", Role: "r"}},
			{auth.Disable{}, auth.Enable{}},
		} {
			name := fmt.Sprint("token ", i)
			if err := add(name, "u", a.Auth().Revision()); err != nil {
				t.Fatal(err)
			}
			id, err := b.TokenUser(within(t), name)
			if err != nil || id.User != "u" {
				t.Fatalf("%s: %+v, %v", name, id, err)
			}
			ctx := auth.With(within(t), id)
			change(t, b, auth.AddRole{Name: name}) // which ends no token
			if _, err := b.Range(ctx, &RangeRequest{Key: []byte("r/"), Serializable: true}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			change(t, a, ends...)
			if _, err := b.Range(ctx, &RangeRequest{Key: []byte("r/")}); !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("%s, which has ended, reads: %v", name, err)
			}
			if _, err := b.Put(ctx, &PutRequest{Key: []byte("w/")}); !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("%s, which has ended, writes: %v", name, err)
			}
			for _, s := range all {
				if err := s.CheckAdmin(ctx); !errors.Is(err, auth.ErrInvalidToken) {
					t.Errorf("%s, which has ended, is known: %v", name, err)
				}
				if _, err := s.TokenUser(within(t), name); !errors.Is(err, auth.ErrInvalidToken) {
					t.Errorf("%s, which has ended: %v", name, err)
				}
			}
		}
	})
}

// TestTokenTime lets virtual time pass. A token lasts for its TTL from its last use on, through whichever store that
// was, and across a restart.
func TestTokenTime(t *testing.T) {
	const ttl = time.Minute
	synctest.Test(t, func(t *testing.T) {
		c := simdb.New(1, nil)
		open := func() *Store { return openStore(t, c.Open(), Config{}) }
		a, b := open(), open()
		enable(t, a)
		for _, name := range []string{"used", "idle"} {
			if err := a.AddToken(within(t), name, "u", a.Auth().Revision(), ttl); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, s *Store, name string, want error) {
			t.Helper()
			if _, err := s.TokenUser(within(t), name); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		for range 10 {
			time.Sleep(ttl * 9 / 10)
			check("used through a", a, "used", nil)
			time.Sleep(ttl * 9 / 10)
			check("used through b", b, "used", nil)
		}
		check("idle, at a", a, "idle", auth.ErrInvalidToken)
		check("idle, at b", b, "idle", auth.ErrInvalidToken)
		if err := b.Close(); err != nil { // which says that the token was used
			t.Fatal(err)
		}
		time.Sleep(ttl - time.Second)
		d := open()
		check("after a restart", d, "used", nil)
		time.Sleep(ttl + time.Second)
		for _, s := range []*Store{a, d} {
			check("no more used", s, "used", auth.ErrInvalidToken)
		}
	})
}
