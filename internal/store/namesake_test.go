package store

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// heartbeats tells a database about another replica.
func heartbeats(t *testing.T, b backend.Shared, id uint64, name string, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(beatOther) {
		m := backend.Member{ID: id, Name: name, ClientURLs: []string{"http://" + name}}
		if _, err := b.Heartbeat(context.Background(), m, beatTimeout, beatSilence); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

// A replica of the same name is reported once, if it stays. What is left of a process that was killed is not.
func TestNamesake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := simdb.New(1, nil)
		var out bytes.Buffer
		s := openStore(t, db.Open(), Config{Name: "a", Logger: slog.New(slog.NewTextHandler(&out, nil))})
		defer s.Close()
		others := db.Open()
		want := func(n int) {
			t.Helper()
			if got := strings.Count(out.String(), "another replica has this one's name"); got != n {
				t.Errorf("logged %d times, want %d:\n%s", got, n, &out)
			}
		}
		heartbeats(t, others, 2, "b", 3*namesakeAge)
		heartbeats(t, others, 3, "a", beatOther) // killed
		heartbeats(t, others, 2, "b", 3*namesakeAge)
		want(0)
		heartbeats(t, others, 4, "a", 3*namesakeAge)
		want(1)
		if !strings.Contains(out.String(), "name=a urls=[http://a]") {
			t.Error(out.String())
		}
		heartbeats(t, others, 2, "b", 3*namesakeAge)
		heartbeats(t, others, 4, "a", 3*namesakeAge)
		want(2)
	})
}
