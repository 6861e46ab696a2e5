package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

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

// writtenTo writes the revisions 2 to 5: b, c, d, b. It returns another replica, which has the current rows and values
// in memory, but not older ones.
func writtenTo(t *testing.T, dsn string) *Store {
	t.Helper()
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for _, key := range []string{"b", "c", "d", "b"} {
		put(t, s, key, "v")
	}
	s = replicasOn(t, 1, Config{}, dsn)[0]
	eventually(t, "the index is loaded", s.index.Complete)
	if _, err := s.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}}); err != nil {
		t.Fatal(err)
	}
	return s
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

// readOld reads the old versions of a key, which only the database has.
func readOld(t *testing.T, s *Store) error {
	t.Helper()
	_, err := s.History(within(t), []byte("b"), 1, 10, 0)
	return err
}

// A replica over a server without page checksums reads nothing from an index that does not lead to all rows, and works
// again once that index is rebuilt.
func testUnindexedRow(t *testing.T, server *pgserver.Server) {
	dsn := server.Database(t)
	s := writtenTo(t, dsn)
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
	eventually(t, "old revisions can be read", func() bool { return readOld(t, damaged) == nil })
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
	writtenTo(t, dsn)
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

// oftenCompacted is a database that another server compacts whenever a verification begins, the first few times.
type oftenCompacted struct {
	*postgres.Backend
	compact func() error
	left    atomic.Int64
}

func (b *oftenCompacted) Verify(ctx context.Context, v backend.Verifier) error {
	if b.left.Add(-1) >= 0 {
		if err := b.compact(); err != nil {
			return err
		}
	}
	return b.Backend.Verify(ctx, v)
}

// A verification that a compaction overtakes begins again at once: the next compaction may come soon, too.
func testVerificationBesideCompactions(t *testing.T, server *pgserver.Server) {
	both := openSharedOn(t, 2, server.Database(t))
	other := openStore(t, both[0], Config{})
	b := &oftenCompacted{Backend: both[1].(*postgres.Backend)}
	b.compact = func() error {
		res, err := other.Put(context.Background(), &PutRequest{Key: []byte("k")})
		if err == nil {
			_, err = other.Compact(context.Background(), res.Revision, false)
		}
		return err
	}
	b.left.Store(50)
	s := openStore(t, b, Config{})
	select {
	case <-s.Verified():
	case <-within(t).Done():
		t.Errorf("%d compactions are still to come", b.left.Load())
	}
}
