package store

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgbouncer"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// wantOnlyOldReadsFail checks a replica whose index in memory is sound, but not the database's.
func wantOnlyOldReadsFail(t *testing.T, s *Store) {
	t.Helper()
	for read, err := range reads(t, s, 4) {
		if old := read[:3] == "old"; old != errors.Is(err, backend.ErrCorrupt) || !old && err != nil {
			t.Errorf("%s: %v", read, err)
		}
	}
}

// After a restart of the server, a replica reads old revisions only once the indexes have been verified again. It still
// serves what is in memory.
func testUnindexedRowAfterARestart(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := writtenTo(t, dsn)
	hide(t, dsn, 3)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "b", "it is connected again")
	wantOnlyOldReadsFail(t, s)
}

// Damage after a repair raises the alarm again.
func testSecondDamage(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := writtenTo(t, dsn)
	for range 2 {
		hide(t, dsn, 3)
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the damage is found", func() bool { return errors.Is(readOld(t, s), backend.ErrCorrupt) })
		eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
		execute(t, dsn, "REINDEX TABLE object_versions")
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the repair is found", func() bool { return readOld(t, s) == nil })
		if _, err := s.ClearAlarm(within(t), Alarm{s.settings.MemberID, AlarmCorrupt}); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that replaces a corrupt one is verified at once, without the pause before a retry.
func testAnotherServer(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	writtenTo(t, dsn)
	hide(t, dsn, 3)
	damaged := replicasOn(t, 1, Config{verifyRetry: time.Hour}, dsn)[0]
	eventually(t, "the damage is found", func() bool {
		return errors.Is(readOld(t, damaged), backend.ErrCorrupt)
	})
	execute(t, dsn, "REINDEX TABLE object_versions")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other server is verified", func() bool { return readOld(t, damaged) == nil })
}

// A restart is also noticed behind a pooler, where a connection does not show which server it leads to.
func testPoolerRestart(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	to, err := url.Parse(pgbouncer.Before(t, dsn))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = to.Host
	s := writtenTo(t, u.String())
	<-s.Verified()
	hide(t, dsn, 3)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is connected", func() bool {
		_, err := s.Put(within(t), &PutRequest{Key: []byte("b")})
		return err == nil
	})
	wantOnlyOldReadsFail(t, s)
}
