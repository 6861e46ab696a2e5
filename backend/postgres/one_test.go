package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// TestExactlyOneRow commits what would change no row, or two, of a table that has exactly one.
func TestExactlyOneRow(t *testing.T) {
	const deaf = "CREATE FUNCTION deaf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
	write := func(b *Backend) error { return begin(t, b, backend.Needs{}).Commit(t.Context(), row("a", 2)) }
	for name, c := range map[string]struct {
		damage []string
		do     func(b *Backend) error
	}{
		"no clock moves": {
			[]string{deaf, "CREATE TRIGGER deaf BEFORE UPDATE ON clock FOR EACH ROW EXECUTE FUNCTION deaf()"}, write,
		},
		"two clocks": {
			[]string{
				"ALTER TABLE clock DISABLE TRIGGER clock_has_one_row",
				"INSERT INTO clock (id, revision, compacted, incarnation, batch, alarms, bytes) " +
					"VALUES (1, 1, 0, 1, 0, 0, 0)",
			}, write,
		},
		"no epoch": {
			[]string{deaf, "CREATE TRIGGER deaf BEFORE UPDATE ON clock FOR EACH ROW EXECUTE FUNCTION deaf()"},
			func(b *Backend) error {
				_, err := b.RaiseEpoch(t.Context(), backend.Clock{Revision: 9, Epoch: 1}, 7)
				return err
			},
		},
		"no auth": {
			[]string{"DELETE FROM auth"},
			func(b *Backend) error {
				return begin(t, b, backend.Needs{}).Commit(t.Context(), &backend.Effects{
					Revision: 1, Batch: 1, Auth: &backend.AuthChange{Revision: 2},
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			b := openTest(t, Config{DSN: dsn})
			for _, sql := range c.damage {
				admin(t, dsn, sql)
			}
			if err := c.do(b); !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, backend.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			rows := 0
			if admin(t, dsn, "SELECT count(*) FROM object_versions", &rows); rows != 0 {
				t.Errorf("%d rows are committed", rows)
			}
		})
	}
}

// Without the row that one replica holds, each would believe that it does the maintenance.
func TestHeartbeatWithoutMaintenance(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	admin(t, dsn, "DELETE FROM maintenance")
	m, err := b.Heartbeat(t.Context(), backend.Member{ID: 7, Name: "a"}, time.Hour, time.Hour)
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("%+v, %v", m, err)
	}
}
