package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// TestAuthAfterLostHistory promotes a standby that lacks a change of users, in virtual time. The stores then know what
// the new primary has, even if that has counted as many changes since, and no revision was lost.
func TestAuthAfterLostHistory(t *testing.T) {
	for name, rows := range map[string]bool{"with rows": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simdb.New(2, nil)
				c.Replicate(0, 1, false, 0)
				a := openStore(t, c.Open(), Config{})
				b := openStore(t, c.Open(), Config{})
				enable(t, a)
				if _, err := a.Put(byUser(t, "u"), &PutRequest{Key: []byte("w/k")}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // until the standby has all of it
				c.Link(0, false)
				change(t, a, permit("r", auth.ReadWrite, "lost/"))
				if rows {
					if _, err := a.Put(byUser(t, "u"), &PutRequest{Key: []byte("lost/k")}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := b.Range(byUser(t, "u"), &RangeRequest{Key: []byte("lost/k")}); err != nil {
					t.Fatal(err)
				}
				c.Stop(0)
				c.Promote(1)
				for _, s := range []*Store{a, b} {
					eventuallyVirtual(t, func() error {
						_, err := s.Put(byUser(t, "u"), &PutRequest{Key: []byte("w/k")})
						return err
					})
				}
				change(t, a, permit("r", auth.Read, "kept/"))
				for _, s := range []*Store{a, b} {
					for key, want := range map[string]error{"lost/k": auth.ErrPermissionDenied, "kept/k": nil} {
						_, err := s.Range(byUser(t, "u"), &RangeRequest{Key: []byte(key)})
						if !errors.Is(err, want) {
							t.Errorf("%s: %v, want %v", key, err, want)
						}
					}
				}
			})
		})
	}
}

// eventuallyVirtual waits, in virtual time, until f returns nil.
func eventuallyVirtual(t *testing.T, f func() error) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}
