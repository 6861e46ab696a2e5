package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// An error that no retry resolves says what to do.
func TestRefusedClients(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t, pgserver.Options{})
	plain := userOf(t, s.Database(t))
	dsn := plain.dsn
	change := func(change func(*url.URL)) string {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	admin(t, s.DSN(), "CREATE DATABASE closed ALLOW_CONNECTIONS false; ")
	admin(t, s.DSN(), "CREATE DATABASE others")
	admin(t, s.DSN(), "REVOKE CONNECT ON DATABASE others FROM public")
	theirs := s.Database(t)
	admin(t, theirs, "REVOKE CREATE ON SCHEMA public FROM public")
	for name, c := range map[string]struct{ dsn, want string }{
		"another password": {change(func(u *url.URL) { u.User = url.UserPassword(plain.name, "q") }), "check the user"},
		"another user":     {change(func(u *url.URL) { u.User = url.UserPassword("nobody", "q") }), "check the user"},
		"no database":      {change(func(u *url.URL) { u.Path = "/none" }), "create the database"},
		"a closed one":     {change(func(u *url.URL) { u.Path = "/closed" }), "ALTER DATABASE"},
		"no CONNECT":       {change(func(u *url.URL) { u.Path = "/others" }), "grant the user"},
		"no CREATE":        {change(func(u *url.URL) { u.Path = pathOf(t, theirs) }), "grant the user"},
		"no parameter":     {with(dsn, "options", "-c nonsense=1"), "correct the parameters"},
		"no TLS":           {with(dsn, "sslmode", "require"), "turn ssl on"},
		"a wrong value":    {with(dsn, "options", "-c work_mem=x"), "correct the parameters"},
	} {
		wantRefused(t, name, c.dsn, c.want)
	}
	// A right that is taken away from a running replica may come back.
	b := openTest(t, Config{DSN: dsn})
	admin(t, dsn, "REVOKE SELECT ON clock FROM "+plain.name)
	if _, err := b.Clock(t.Context()); !errors.Is(err, ErrRefused) || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("without a right: %v", err)
	}
	admin(t, dsn, "GRANT SELECT ON clock TO "+plain.name)
	wantClock(t, b, 1)
}

func wantRefused(t *testing.T, name, dsn, want string) {
	t.Helper()
	b, err := Open(t.Context(), Config{DSN: dsn})
	if err == nil {
		_ = b.Close()
	}
	if !errors.Is(err, ErrRefused) || !errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), backend.ErrUnavailable.Error()) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func pathOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}
