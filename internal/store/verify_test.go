package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/test/support/pgbouncer"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// TestVerification runs over a server that does not notice damage to its files.
func TestVerification(t *testing.T) {
	server := pgserver.Start(t, pgserver.Options{})
	for _, c := range []struct {
		name string
		test func(*testing.T, *pgserver.Server)
	}{
		{"Damage", testDamage},
		{"UnindexedRow", testUnindexedRow},
		{"DuringWrites", testVerificationDuringWrites},
		{"UnindexedRowAfterARestart", testUnindexedRowAfterARestart},
		{"Purge", testPurgeOfAnUnindexedRow},
		{"SecondDamage", testSecondDamage},
		{"AnotherServer", testAnotherServer},
		{"Writes", testWrites},
		{"PoolerRestart", testPoolerRestart},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, server) })
	}
}

// unindexed runs a statement that updates no index of the table, as if their pages were damaged.
func unindexed(t *testing.T, dsn, statement string) {
	t.Helper()
	const ready = "UPDATE pg_index SET indisready = %t WHERE indrelid = 'object_versions'::regclass"
	execute(t, dsn, fmt.Sprintf(ready, false))
	execute(t, dsn, statement)
	execute(t, dsn, fmt.Sprintf(ready, true))
}

// hide replaces the row of a revision by an equal one that no index leads to.
func hide(t *testing.T, dsn string, revision int64) {
	t.Helper()
	unindexed(t, dsn, fmt.Sprintf("WITH d AS (DELETE FROM object_versions WHERE resource_version = %d RETURNING *) "+
		"INSERT INTO object_versions SELECT * FROM d", revision))
}

// reads makes every kind of read that relies on an index of the database or on the one in memory.
func reads(t *testing.T, s *Store, revision int64) map[string]error {
	t.Helper()
	all := func(req RangeRequest) error {
		req.Key, req.End = []byte("a"), []byte("z")
		res, err := s.Range(within(t), &req)
		if err == nil && res.Count != 3 {
			err = fmt.Errorf("%d keys", res.Count)
		}
		return err
	}
	return map[string]error{
		"list":      all(RangeRequest{}),
		"keys":      all(RangeRequest{KeysOnly: true}),
		"count":     all(RangeRequest{CountOnly: true}),
		"old list":  all(RangeRequest{Revision: revision}),
		"old keys":  all(RangeRequest{Revision: revision, KeysOnly: true}),
		"old count": all(RangeRequest{Revision: revision, CountOnly: true}),
	}
}

// A replica over a server without page checksums reads nothing from an index that does not lead to all rows, and works
// again once that index is rebuilt.
func testUnindexedRow(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} { // revisions 2 to 5
		put(t, s, key, "v")
	}
	for read, err := range reads(t, s, 4) {
		if err != nil {
			t.Errorf("%s of a sound database: %v", read, err)
		}
	}
	hide(t, dsn, 3)
	damaged := replicasOn(t, 1, Config{verifyRetry: 10 * time.Millisecond}, dsn)[0]
	for read, err := range reads(t, damaged, 4) {
		if !errors.Is(err, backend.ErrCorrupt) {
			t.Errorf("%s through an index that lacks a row: %v", read, err)
		}
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(damaged) })
	if _, err := damaged.Put(within(t), &PutRequest{Key: []byte("c")}); err == nil {
		t.Error("a write succeeds")
	}
	execute(t, dsn, "REINDEX TABLE object_versions")
	eventually(t, "the index is loaded", damaged.index.Complete)
	eventually(t, "old revisions can be read", func() bool {
		_, err := damaged.Range(within(t), &RangeRequest{Key: []byte("b"), Revision: 4})
		return err == nil
	})
	for read, err := range reads(t, damaged, 4) {
		if err != nil {
			t.Errorf("%s of the repaired database: %v", read, err)
		}
	}
	if _, err := damaged.ClearAlarm(within(t), Alarm{damaged.settings.MemberID, AlarmCorrupt}); err != nil {
		t.Fatal(err)
	}
	put(t, damaged, "c", "v2")
}

// After a restart of the server, a replica reads old revisions only once the indexes have been verified again. It still
// serves what is in memory.
func testUnindexedRowAfterARestart(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	eventually(t, "the index is loaded", s.index.Complete)
	hide(t, dsn, 3)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "b", "it is connected again")
	for read, err := range reads(t, s, 4) {
		if old := read[:3] == "old"; old != errors.Is(err, backend.ErrCorrupt) || !old && err != nil {
			t.Errorf("%s: %v", read, err)
		}
	}
}

// A purge that does not find what a tombstone supersedes would leave that behind as the newest version of its key.
func testPurgeOfAnUnindexedRow(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	put(t, s, "b", "v")
	if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "c", "v")
	if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
		t.Fatal(err)
	}
	hide(t, dsn, 2)
	damaged := replicasOn(t, 1, Config{verifyRetry: time.Hour}, dsn)[0]
	if res, err := damaged.PurgeStep(within(t), 100); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("a purge by an index that lacks a row: %+v, %v", res, err)
	}
	execute(t, dsn, "REINDEX TABLE object_versions")
	repaired := replicasOn(t, 1, Config{}, dsn)[0]
	res, err := repaired.Range(within(t), &RangeRequest{Key: []byte("b")})
	if err != nil || len(res.Rows) != 0 {
		t.Errorf("a deleted key: %+v, %v", res, err)
	}
}

// Damage after a repair raises the alarm again.
func testSecondDamage(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	for range 2 {
		hide(t, dsn, 3)
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		old := func() error {
			_, err := s.Range(within(t), &RangeRequest{Key: []byte("b"), Revision: 4})
			return err
		}
		eventually(t, "the damage is found", func() bool { return errors.Is(old(), backend.ErrCorrupt) })
		eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
		execute(t, dsn, "REINDEX TABLE object_versions")
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the repair is found", func() bool { return old() == nil })
		if _, err := s.ClearAlarm(within(t), Alarm{s.settings.MemberID, AlarmCorrupt}); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage that no index shows: a row that does not match its checksum, revisions without rows, rows that the clock does
// not know.
func testDamage(t *testing.T, server *pgserver.Server) {
	for name, damage := range map[string]string{
		"a key":             "UPDATE object_versions SET key = 'x' WHERE resource_version = 3",
		"an old version":    "UPDATE object_versions SET lease = 4 WHERE resource_version = 2",
		"a tombstone":       "UPDATE object_versions SET key = 'x' WHERE deleted",
		"a lost revision":   "DELETE FROM object_versions WHERE resource_version = 2",
		"a clock ahead":     "UPDATE clock SET revision = revision + 1",
		"a clock behind":    "UPDATE clock SET revision = revision - 1",
		"nothing":           "",
		"no checksums":      "UPDATE object_versions SET checksum = NULL",
		"a clock compacted": "UPDATE clock SET compacted = 3",
	} {
		t.Run(name, func(t *testing.T) {
			dsn := server.Database(t)
			s := replicasOn(t, 1, Config{}, dsn)[0]
			for _, key := range []string{"b", "b", "c", "d", "e", string(make([]byte, 3000))} {
				put(t, s, key, "v")
			}
			if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("e")}); err != nil {
				t.Fatal(err)
			}
			want, err := s.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}})
			if err != nil {
				t.Fatal(err)
			}
			if damage != "" {
				execute(t, dsn, damage)
			}
			damaged := replicasOn(t, 1, Config{}, dsn)[0]
			got, err := damaged.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}})
			if sound := name[0] == 'n' || name == "a clock compacted"; !sound {
				if !errors.Is(err, backend.ErrCorrupt) {
					t.Errorf("error %v, want ErrCorrupt", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !damaged.index.Complete() || len(got.Rows) != 4 || len(want.Rows) != 4 {
				t.Fatalf("%d rows, want %d", len(got.Rows), len(want.Rows))
			}
			for i, r := range got.Rows {
				if fmt.Sprint(*r) != fmt.Sprint(*want.Rows[i]) {
					t.Errorf("%v, want %v", *r, *want.Rows[i])
				}
			}
		})
	}
}

func rowsOf(res *RangeResult) string {
	all := fmt.Sprint("at ", res.Revision, ": ")
	for _, r := range res.Rows {
		all += fmt.Sprintln(*r)
	}
	return all
}

// A replica that starts while others write and compact loads exactly the rows that exist.
func testVerificationDuringWrites(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	writer := replicasOn(t, 1, Config{}, dsn)[0]
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			key := []byte(fmt.Sprint("k", i*7919%300))
			if i%3 == 2 {
				_, err = writer.Delete(t.Context(), &DeleteRequest{Key: key})
			} else {
				_, err = writer.Put(t.Context(), &PutRequest{Key: key, Value: []byte("v")})
			}
			if err == nil && i%100 == 99 {
				_, err = writer.Compact(t.Context(), writer.Revision()-20, false)
			}
			if err == nil && i%50 == 49 {
				_, err = writer.PurgeStep(t.Context(), 1000)
			}
		}
		written <- err
	}()
	var started []*Store
	for range 4 {
		before := writer.Revision()
		s := replicasOn(t, 1, Config{}, dsn)[0]
		eventually(t, "the index is loaded", s.index.Complete)
		eventually(t, "more is written", func() bool { return writer.Revision() > before+30 })
		started = append(started, s)
	}
	cancel()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	want, err := writer.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range started {
		got, err := s.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}})
		if err != nil {
			t.Fatal(err)
		}
		if g, w := rowsOf(got), rowsOf(want); g != w {
			t.Errorf("got %s\nwant %s", g, w)
		}
		if corruptAlarm(s) {
			t.Error("the alarm is raised")
		}
	}
}

// A server that replaces a corrupt one is verified at once, without the pause before a retry.
func testAnotherServer(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	hide(t, dsn, 3)
	damaged := replicasOn(t, 1, Config{verifyRetry: time.Hour}, dsn)[0]
	eventually(t, "the damage is found", func() bool {
		_, err := damaged.Range(within(t), &RangeRequest{Key: []byte("b"), Revision: 4})
		return errors.Is(err, backend.ErrCorrupt)
	})
	execute(t, dsn, "REINDEX TABLE object_versions")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other server is verified", func() bool {
		_, err := damaged.Range(within(t), &RangeRequest{Key: []byte("b"), Revision: 4})
		return err == nil
	})
}

// slowlyVerified is a database whose verification waits until let is closed.
type slowlyVerified struct {
	*postgres.Backend
	let chan struct{}
}

func (b *slowlyVerified) Verify(ctx context.Context, v backend.Verifier) error {
	select {
	case <-b.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.Backend.Verify(ctx, v)
}

// A write that must read a key waits for the verification, too.
func testWrites(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	hide(t, dsn, 3)
	slow := &slowlyVerified{openSharedOn(t, 1, dsn)[0].(*postgres.Backend), make(chan struct{})}
	damaged := openStore(t, slow, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	res, err := damaged.Put(ctx, &PutRequest{Key: []byte("c"), PrevKV: true})
	if err == nil {
		t.Errorf("a put of a key that is not verified yet: %+v", res)
	}
	close(slow.let)
	if _, err := damaged.Put(within(t), &PutRequest{Key: []byte("c")}); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("after the verification: %v", err)
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(damaged) })
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
	s := replicasOn(t, 1, Config{}, u.String())[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	eventually(t, "the index is loaded", s.index.Complete)
	<-s.Verified()
	hide(t, dsn, 3)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is connected", func() bool {
		_, err := s.Put(within(t), &PutRequest{Key: []byte("b")})
		return err == nil
	})
	for read, err := range reads(t, s, 4) {
		if old := read[:3] == "old"; old != errors.Is(err, backend.ErrCorrupt) || !old && err != nil {
			t.Errorf("%s: %v", read, err)
		}
	}
}
