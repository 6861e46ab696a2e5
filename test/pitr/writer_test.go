package pitr

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// bump is what the tests raise the revision by.
const bump = 1_000_000_000

// writer writes to a store and remembers one of its states.
type writer struct {
	t      *testing.T
	client *clientv3.Client
	next   int

	state    map[string]string // key to value and revisions, as remembered
	revision int64             // of the state
	highest  int64             // that the store has given out
}

func newWriter(t *testing.T, s *launch.Server) *writer {
	t.Helper()
	w := &writer{t: t}
	w.connect(s)
	return w
}

func (w *writer) connect(s *launch.Server) {
	w.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	w.client = client
}

// write writes n times: new keys, new versions and deletions.
func (w *writer) write(n int) {
	w.t.Helper()
	for range n {
		w.next++
		key := fmt.Sprintf("/k/%03d", w.next*7%150)
		if w.next%10 == 0 {
			got, err := w.client.Delete(w.t.Context(), key)
			if err != nil {
				w.t.Fatal(err)
			}
			w.highest = got.Header.Revision
			continue
		}
		got, err := w.client.Put(w.t.Context(), key, fmt.Sprint(w.next, strings.Repeat("x", w.next%500)))
		if err != nil {
			w.t.Fatal(err)
		}
		w.highest = got.Header.Revision
	}
}

// remember remembers the present state.
func (w *writer) remember() {
	w.t.Helper()
	w.state, w.revision = w.read()
}

// read returns the present state.
func (w *writer) read() (state map[string]string, revision int64) {
	w.t.Helper()
	got, err := w.client.Get(w.t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	state = map[string]string{}
	for _, kv := range got.Kvs {
		state[string(kv.Key)] = fmt.Sprintf("%s created %d modified %d version %d", kv.Value, kv.CreateRevision,
			kv.ModRevision, kv.Version)
	}
	return state, got.Header.Revision
}

// goOn writes what a restore takes back, among it the deletion of many keys.
func (w *writer) goOn() {
	w.t.Helper()
	w.write(100)
	got, err := w.client.Delete(w.t.Context(), "/k/0", clientv3.WithPrefix())
	if err != nil || got.Deleted < 50 {
		w.t.Fatalf("delete many keys: %v, %v", got, err)
	}
	w.write(20)
}

func (w *writer) checkState(revision int64) {
	w.t.Helper()
	state, at := w.read()
	if at != revision {
		w.t.Errorf("the store is at revision %d, want %d", at, revision)
	}
	if maps.Equal(state, w.state) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(w.state)) {
		if state[key] != w.state[key] {
			w.t.Errorf("%s: %.60q, want %.60q", key, state[key], w.state[key])
		}
	}
	w.t.Errorf("%d keys, want %d", len(state), len(w.state))
}

// checkRestored checks that the stopped server s does not serve the restored database, because of evidence, until its
// revision is raised, and what it serves then.
func (w *writer) checkRestored(s *launch.Server, evidence string, database []string) {
	w.t.Helper()
	for range 2 { // it stays so
		err := s.TryRestart()
		if err == nil || !strings.Contains(err.Error(), "restored to an earlier state") ||
			!strings.Contains(err.Error(), evidence) {
			w.t.Fatalf("the start on a restored database: %v", err)
		}
	}
	w.raise(database)
	s.Restart(w.t)
	w.checkRaised(s, database)
}

// raise raises the revision of a restored database.
func (w *writer) raise(database []string) {
	w.t.Helper()
	out := command(w.t, append([]string{"repair", "--bump-by", fmt.Sprint(bump), "--yes"}, database...)...)
	if want := fmt.Sprintf("(it was %d)", w.revision); !strings.Contains(out, want) {
		w.t.Errorf("repair prints %q, want %q", out, want)
	}
}

// checkRaised checks that a server serves the remembered state above all revisions that clients know.
func (w *writer) checkRaised(s *launch.Server, database []string) {
	w.t.Helper()
	ctx := w.t.Context()
	w.connect(s)
	_, raised := w.read()
	if raised <= w.highest {
		w.t.Errorf("the store is at revision %d, and clients know %d", raised, w.highest)
	}
	w.checkState(raised)
	for _, known := range []int64{1, w.revision, w.revision + 1, w.highest, raised - 1} {
		if _, err := w.client.Get(ctx, "/k/001", clientv3.WithRev(known)); !errors.Is(err, rpctypes.ErrCompacted) {
			w.t.Errorf("a read at %d: %v", known, err)
		}
		r := <-w.client.Watch(ctx, "/k/", clientv3.WithPrefix(), clientv3.WithRev(known))
		if !errors.Is(r.Err(), rpctypes.ErrCompacted) || r.CompactRevision != raised {
			w.t.Errorf("a watch from %d: %v, %+v", known, r.Err(), r)
		}
	}
	events := w.client.Watch(ctx, "/k/", clientv3.WithPrefix(), clientv3.WithRev(raised+1))
	put, err := w.client.Put(ctx, "/k/001", "after")
	if err != nil || put.Header.Revision != raised+1 {
		w.t.Fatalf("the next write: %v, %v", put, err)
	}
	if r := <-events; len(r.Events) != 1 || r.Events[0].Kv.ModRevision != raised+1 {
		w.t.Errorf("the next event: %+v", r)
	}
	w.purge(put.Header.Revision, database)
	stop(w.t, s)
	if out := command(w.t, append([]string{"check"}, database...)...); !strings.Contains(out, " 0 problems") {
		w.t.Errorf("check: %s", out)
	}
	s.Restart(w.t)
	w.connect(s)
	if got, err := w.client.Get(ctx, "/k/001"); err != nil || string(got.Kvs[0].Value) != "after" {
		w.t.Errorf("after another start: %v, %v", got, err)
	}
}

// purge compacts the store and waits until one row for each key is left.
func (w *writer) purge(revision int64, database []string) {
	w.t.Helper()
	if _, err := w.client.Compact(w.t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		w.t.Fatal(err)
	}
	state, _ := w.read()
	want := fmt.Sprintf("%d rows, 0 problems", len(state))
	for end := time.Now().Add(time.Minute); ; {
		out := command(w.t, append([]string{"check"}, database...)...)
		if strings.Contains(out, want) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("after a compaction: %s, want %s", out, want)
		}
	}
}

// command runs sqlstore and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sqlstore %q: %v: %s%s", args, err, out, &stderr)
	}
	return string(out)
}

func stop(t *testing.T, s *launch.Server) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}
