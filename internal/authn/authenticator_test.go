package authn

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// of opens a store with authentication and root, whose password is "right".
func of(t *testing.T) *Authenticator {
	t.Helper()
	b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := store.Open(t.Context(), b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []auth.Change{
		auth.AddUser{Name: "root", Hash: hash},
		auth.AddRole{Name: "root"},
		auth.GrantRole{User: "root", Role: "root"},
		auth.Enable{},
	} {
		if _, err := s.ChangeAuth(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return New(s, Options{BcryptCost: bcrypt.MinCost})
}

const somewhere = "10.0.0.1:1000"

// A password that was right before is no answer for those who may not try one now: otherwise they could guess as fast
// as they can ask.
func TestLimitsOfKnownPasswords(t *testing.T) {
	t.Parallel()
	a := of(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Password(ctx, "root", "right", somewhere); err != nil {
		t.Fatal(err)
	}
	var ends []func(Outcome)
	for range int(pairLimit.burst) {
		end, err := a.throttle.Begin(ctx, "root", somewhere)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	known := make(chan error, 1)
	go func() {
		_, err := a.Password(ctx, "root", "right", somewhere)
		known <- err
	}()
	for queued := 0; queued == 0; {
		select {
		case err := <-known:
			t.Fatalf("an answer beyond the limits: %v", err)
		case <-time.After(time.Millisecond):
		}
		a.throttle.mu.Lock()
		queued = len(a.throttle.waiting)
		a.throttle.mu.Unlock()
	}
	for _, end := range ends {
		end(Abandoned)
	}
	if err := <-known; err != nil {
		t.Error(err)
	}
}

// Who hangs up before the answer has guessed nevertheless.
func TestHangingUpCounts(t *testing.T) {
	t.Parallel()
	a := of(t)
	for range cap(a.Passwords.slots) { // no password is compared meanwhile
		a.Passwords.slots <- struct{}{}
	}
	for range 10 * int(pairLimit.burst) {
		if a.throttle.hopeless(&login{pair: pair{"root", network(somewhere)}}) {
			return
		}
		ctx, hangUp := context.WithCancel(t.Context())
		known := make(chan error, 1)
		go func() {
			_, err := a.Password(ctx, "root", "wrong", somewhere)
			known <- err
		}()
		for begun := 0; begun == 0; runtime.Gosched() {
			a.throttle.mu.Lock()
			begun = a.throttle.underWay
			a.throttle.mu.Unlock()
		}
		hangUp()
		if err := <-known; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	t.Error("attempts do not count")
}
