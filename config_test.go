package sqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

func TestDatabase(t *testing.T) {
	for datastore, want := range map[string]string{
		"":                           "dir/sqlstore.db",
		"sqlite":                     "dir/sqlstore.db",
		"sqlite://":                  "dir/sqlstore.db",
		"sqlite:///a/b.db":           "/a/b.db",
		"sqlite:///a%20b%3Fc%23d.db": "/a b?c#d.db",
		"sqlite:///a b.db":           "/a b.db",
		"sqlite://rel/path.db":       "! write sqlite:///path/to/file",
		"sqlite://user@/path.db":     "! write sqlite:///path/to/file",
		"sqlite:rel.db":              "! write sqlite:///path/to/file",
		"sqlite:///":                 "! write sqlite:///path/to/file",
		"sqlite:///a b?c%20.db":      "! ?c%20.db",
		"sqlite:///a?":               "! %3F",
		"sqlite:///a#b":              "! #b",
		"sqlite:///a#":               "! %23",
		"oracle://u:secret@host/db":  "! oracle",
		"u:secret@host/db":           "! postgres://",
		"sqlite://u:secret@%zz":      "! postgres://",
		"sqlite://u:secret@host/x?y": "! sqlite:///",
	} {
		c := sqlstore.Config{DataDir: "dir", Datastore: datastore}
		got, err := c.Database()
		if part, refused := strings.CutPrefix(want, "! "); refused {
			if !errors.Is(err, sqlstore.ErrConfig) || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %q, %v; want an error with %q", datastore, got, err, part)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", datastore, got, err, want)
		}
	}
}
