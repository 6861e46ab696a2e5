package store

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// openDamageable opens a file, and returns a function that runs a statement on it beside the backend.
func openDamageable(t *testing.T) (b backend.Backend, damage func(statement string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	b, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, func(statement string) {
		t.Helper()
		db, err := sql.Open("sqlite3", path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

const damageValue = "UPDATE object_versions SET value = (SELECT o.value FROM object_versions AS o " +
	"WHERE o.resource_version = 2) WHERE resource_version = 3"

func corruptAlarm(s *Store) bool { return s.alarms.is(AlarmCorrupt) }

// A row that does not match its checksum is not served, stops writes once, and can be overwritten after that.
func TestCorruptRow(t *testing.T) {
	back, damage := openDamageable(t)
	s := openStore(t, back, Config{CacheBytes: 1})
	put(t, s, "a", "intact")
	put(t, s, "b", "other")
	eventually(t, "the index is loaded", s.index.Complete)
	damage(damageValue)
	read := func() {
		t.Helper()
		for name, req := range map[string]*RangeRequest{
			"get":  {Key: []byte("b")},
			"list": {Key: []byte("a"), End: []byte("c")},
			"old":  {Key: []byte("b"), Revision: 3},
		} {
			if res, err := s.Range(within(t), req); !errors.Is(err, backend.ErrCorrupt) {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		}
		if r := get(t, s, "a", 0); string(r.Value) != "intact" {
			t.Errorf("the other key is %q", r.Value)
		}
	}
	read()
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a write: %v", err)
	}
	var row *backend.CorruptRow
	if err := s.Corruption(); !errors.As(err, &row) || string(row.Key) != "b" || row.ID.ModRevision != 3 {
		t.Errorf("corruption %v", err)
	}
	if w := s.Writing(); w.Fault != nil {
		t.Errorf("the database counts as failing: %v", w.Fault.Err)
	}
	if _, err := s.ClearAlarm(within(t), Alarm{s.settings.MemberID, AlarmCorrupt}); err != nil {
		t.Fatal(err)
	}
	read()
	put(t, s, "b", "new") // ordered after an alarm that the reads would have raised
	if corruptAlarm(s) {
		t.Error("the same row has raised the alarm again")
	}
	if r := get(t, s, "b", 0); string(r.Value) != "new" {
		t.Errorf("after the repair: %q", r.Value)
	}
}

// A watch that needs a damaged version ends with the reason, and others go on.
func TestCorruptHistory(t *testing.T) {
	back, damage := openDamageable(t)
	s := openStore(t, back, Config{WindowBytes: 1, CacheBytes: 1})
	put(t, s, "a", "intact")
	put(t, s, "b", "other")
	put(t, s, "c", "last")
	damage(damageValue)
	st := s.NewWatchStream()
	defer st.Close()
	st.Watch(WatchRequest{Key: []byte("b"), StartRevision: 1})
	if r := next(t, st); !r.Created {
		t.Fatalf("got %+v", r)
	}
	if r := next(t, st); !r.Canceled || !errors.Is(r.Err, backend.ErrCorrupt) || len(r.Events) > 0 {
		t.Errorf("got %+v", r)
	}
	st.Watch(WatchRequest{Key: []byte("a"), StartRevision: 1})
	if r := next(t, st); !r.Created {
		t.Fatalf("got %+v", r)
	}
	if r := next(t, st); len(r.Events) != 1 || string(r.Events[0].Row.Value) != "intact" {
		t.Errorf("got %+v", r)
	}
}

// A transaction that reads a damaged row before it writes fails.
func TestCorruptRowOfTransaction(t *testing.T) {
	back, damage := openDamageable(t)
	s := openStore(t, back, Config{DisableIndex: true})
	put(t, s, "a", "intact")
	put(t, s, "b", "other")
	damage(damageValue)
	_, err := s.Txn(within(t), &Txn{Success: []Op{
		{Put: &PutRequest{Key: []byte("new")}}, {Range: &RangeRequest{Key: []byte("b")}},
	}})
	if !errors.Is(err, backend.ErrCorrupt) {
		t.Error(err)
	}
	if res, err := s.Range(within(t), &RangeRequest{Key: []byte("new")}); err != nil || len(res.Rows) > 0 {
		t.Errorf("after the transaction: %+v, %v", res, err)
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
}

// A replica that reads a damaged row notices it like any other store.
func TestCorruptRowOnPostgres(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{CacheBytes: 1}, dsn)[0]
	put(t, s, "a", "intact")
	put(t, s, "b", "other")
	eventually(t, "the index is loaded", s.index.Complete)
	execute(t, dsn, damageValue)
	if res, err := s.Range(within(t), &RangeRequest{Key: []byte("b")}); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("%+v, %v", res, err)
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
	if r := get(t, s, "a", 0); string(r.Value) != "intact" {
		t.Errorf("the other key is %q", r.Value)
	}
}

// A commit that meets damage raises the alarm on a replica, too.
func TestCorruptCommitOnPostgres(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	put(t, s, "a", "intact")
	for _, statement := range []string{
		"CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " +
			"RAISE data_corrupted USING MESSAGE = 'invalid page in block 7'; END $$",
		"CREATE TRIGGER damage BEFORE INSERT ON object_versions FOR EACH ROW EXECUTE FUNCTION damage()",
	} {
		execute(t, dsn, statement)
	}
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("b")}); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("a put: %v", err)
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
}
