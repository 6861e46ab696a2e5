package sqlstore_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
)

// Two servers can start with one Config whose slices have spare capacity.
func TestStartDoesNotChangeItsConfig(t *testing.T) {
	config := func() *sqlstore.Config {
		list := func(s ...string) []string { return slices.Grow(s, 4) }
		return &sqlstore.Config{
			ListenClientURLs: list("http://127.0.0.1:0"), ListenMetricsURLs: list("http://127.0.0.1:0"),
			ListenObjectsURLs: list("http://127.0.0.1:0"), AdvertiseClientURLs: list("http://a.example:1"),
			CORS: list("https://b.example"), HostWhitelist: list(" c.example "),
			Compaction: compactor.Config{Mode: compactor.Periodic, Retention: "1h"},
		}
	}
	// spare also shows what the slices hold beyond their length.
	spare := func(c *sqlstore.Config) []string {
		var all []string
		for _, s := range [][]string{
			c.ListenClientURLs, c.ListenMetricsURLs, c.ListenObjectsURLs, c.AdvertiseClientURLs, c.CORS,
			c.HostWhitelist,
		} {
			all = append(all, s[:5]...)
		}
		return all
	}
	used, want := config(), config()
	one, _ := start(t, *used)
	two, _ := start(t, *used)
	if one.Endpoints()[0] == two.Endpoints()[0] {
		t.Errorf("both serve on %s", one.Endpoints()[0])
	}
	if !reflect.DeepEqual(used, want) || !slices.Equal(spare(used), spare(want)) {
		t.Errorf("Start made it %+v (%q), want %+v", used, spare(used), want)
	}
}

func TestDatabase(t *testing.T) {
	for datastore, want := range map[string]string{
		"":                           "dir/sqlstore.db",
		"sqlite":                     "dir/sqlstore.db",
		"sqlite:///a/b.db":           "/a/b.db",
		"sqlite:///a%20b%3Fc%23d.db": "/a b?c#d.db",
		"sqlite:///a b.db":           "/a b.db",
		"sqlite://rel/path.db":       "! write sqlite:///path/to/file",
		"sqlite://user@/path.db":     "! write sqlite:///path/to/file",
		"sqlite:rel.db":              "! write sqlite:///path/to/file",
		"sqlite:///":                 "! write sqlite:///path/to/file",
		"sqlite://":                  "! sqlite:// names no file: write sqlite:///path/to/file",
		"SQLite://":                  "! or leave it out for a file in Config.DataDir",
		"sqlite:":                    "! write sqlite:///path/to/file",
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
			if !errors.Is(err, sqlstore.ErrConfig) || !strings.Contains(err.Error(), part) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %q, %v; want an error with %q", datastore, got, err, part)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", datastore, got, err, want)
		}
	}
	upper := sqlstore.Config{Datastore: "Postgres://u:secret@host/db", DatastorePasswordFile: "file"}
	if got, err := upper.Database(); err != nil || !strings.HasPrefix(got, "postgres://") ||
		strings.Contains(got, "secret") {
		t.Errorf("an upper-case scheme: %q, %v", got, err)
	}
	mistaken := sqlstore.Config{DataDir: "postgres://u:secret@host/db"}
	if _, err := mistaken.Database(); !errors.Is(err, sqlstore.ErrConfig) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL as the data directory: %v", err)
	}
	blank := sqlstore.Config{DataDir: " \t"}
	if _, err := blank.Database(); !errors.Is(err, sqlstore.ErrConfig) ||
		!strings.Contains(err.Error(), "white space") {
		t.Errorf("a blank data directory: %v", err)
	}
	sqlite := sqlstore.Config{DataDir: "dir", DatastorePasswordFile: "file"}
	if _, err := sqlite.Database(); !errors.Is(err, sqlstore.ErrConfig) || !strings.Contains(err.Error(), "Postgres") {
		t.Errorf("a password file for SQLite: %v", err)
	}
}
