package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func TestAllTables(t *testing.T) {
	dsn := database(t)
	openTest(t, Config{DSN: dsn})
	var found []string
	admin(t, dsn, "SELECT array_agg(tablename::text ORDER BY tablename) FROM pg_tables "+
		"WHERE schemaname = current_schema() AND tablename <> 'schema_migrations'", &found)
	if want := slices.Sorted(slices.Values(allTables)); !slices.Equal(found, want) {
		t.Errorf("the schema has %v, want %v", found, want)
	}
}

// No wait completes a database that a restore has left incomplete.
func TestIncompleteDatabase(t *testing.T) {
	dsn := database(t)
	open := func() error {
		b, err := Open(t.Context(), Config{DSN: dsn})
		if err == nil {
			err = b.Close()
		}
		return err
	}
	refuses := func(table string) {
		t.Helper()
		if err := open(); !errors.Is(err, ErrIncomplete) || errors.Is(err, backend.ErrUnavailable) ||
			!strings.Contains(err.Error(), table) {
			t.Errorf("without %s: %v", table, err)
		}
		if found := Examine(t.Context(), Config{DSN: dsn}); table != "settings" && // of which schema.Status needs a row
			!strings.Contains(found[len(found)-1].Detail, ErrIncomplete.Error()) {
			t.Errorf("without %s, the examination ends with %+v", table, found[len(found)-1])
		}
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	for _, table := range allTables {
		admin(t, dsn, "ALTER TABLE "+table+" RENAME TO moved")
		refuses(table)
		admin(t, dsn, "ALTER TABLE moved RENAME TO "+table)
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	for _, table := range oneRow { // the error lists all
		admin(t, dsn, "DELETE FROM "+table)
		refuses(table)
	}
}

// A running replica goes on trying without a row that it needs.
func TestMissingRows(t *testing.T) {
	ctx := context.Background()
	heartbeat := func(b *Backend) error {
		_, err := b.Heartbeat(ctx, backend.Member{ID: 7, Name: "a"}, time.Hour, time.Hour)
		return err
	}
	const noPurge, noExtension = "DELETE FROM purge", "DELETE FROM lease_extension"
	for name, c := range map[string]struct {
		damage string
		do     func(b *Backend) error
		want   error
	}{
		"purge": {
			noPurge, func(b *Backend) error { _, err := b.Purge(ctx, 1, math.MaxInt64); return err }, errNoPurge,
		},
		"pin": {
			noPurge, func(b *Backend) error { _, err := b.Pin(ctx, 1, time.Hour); return err }, errNoPurge,
		},
		"size":         {noPurge, func(b *Backend) error { _, err := b.Size(ctx); return err }, errNoPurge},
		"no purge":     {noPurge, heartbeat, errNoPurge},
		"no extension": {noExtension, heartbeat, errNoExtension},
		"extend leases": {
			noExtension, func(b *Backend) error { _, err := b.ExtendLeases(ctx); return err }, errNoExtension,
		},
		"size, no clock": {
			"DELETE FROM clock", func(b *Backend) error { _, err := b.Size(ctx); return err }, backend.ErrNoClock,
		},
		"no table": {"DROP TABLE members", heartbeat, errNoTable},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			b := openTest(t, Config{DSN: dsn})
			admin(t, dsn, c.damage)
			if err := c.do(b); !errors.Is(err, c.want) || !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}
