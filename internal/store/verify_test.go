package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestVerification runs over a server that does not notice damage to its files.
func TestVerification(t *testing.T) {
	t.Parallel()
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
		{"Compactions", testVerificationBesideCompactions},
		{"PoolerRestart", testPoolerRestart},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, server) })
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
		"another checksum":  "UPDATE object_versions SET checksum = 0 WHERE resource_version = 3",
		"a clock compacted": "UPDATE clock SET compacted = 3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
				if got, want := undated(r), undated(want.Rows[i]); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}

func rowsOf(res *RangeResult) string {
	all := fmt.Sprint("at ", res.Revision, ": ")
	for _, r := range res.Rows {
		all += undated(r) + "\n"
	}
	return all
}

// undated is a row without its time, which only a row that was read from the database has.
func undated(r *Row) string {
	c := *r
	c.WrittenAt = 0
	return fmt.Sprint(c)
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
