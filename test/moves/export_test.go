package moves

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// kine, on a database that was exported, answers as sqlstore did at every revision, watches included, and its clients
// can go on.
func TestExport(t *testing.T) {
	source := launch.Start(t, launch.Config{})
	client := connect(t, source.Endpoint())
	h := newHistory(t, client, true)
	h.create(prefix + "health") // as kine would
	h.write(writes(t))
	h.settle()
	want := record(t, client, h.compacted)
	events := watch(t, client, want)
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, kvs := range want.at {
		for _, kv := range kvs {
			kv.Lease = h.ttl[kv.Lease]
		}
	}
	for _, d := range databases(t) {
		for _, v := range server.Versions {
			t.Run(d.name+"/"+v.Name, func(t *testing.T) {
				endpoint, url := d.create(t)
				if err := export(t, source.DataDir(), url); err != nil {
					t.Fatal(err)
				}
				if err := export(t, source.DataDir(), url); !errors.Is(err, kine.ErrNotEmpty) {
					t.Errorf("a second export: %v", err)
				}
				checkSource(t, url, want, h)
				k := v.Start(t, endpoint)
				checkKine(t, k.Client, want, v.Compacts)
				if v.Compacts { // the values before are of a newer kine
					if got := watch(t, k.Client, want); got != events {
						t.Errorf("a watch differs: %s", difference(got, events))
					}
				}
				next := h.fork(t, k.Client)
				next.compacts = v.Compacts
				next.write(writes(t) / 2)
				next.settle()
				k.Stop(t)
			})
		}
	}
}

// checkKine compares what kine lists at each revision with want.
func checkKine(t *testing.T, client *clientv3.Client, want *lists, newer bool) {
	t.Helper()
	got := record(t, client, want.compacted)
	if got.current != want.current {
		t.Fatalf("kine is at revision %d, want %d", got.current, want.current)
	}
	for revision, kvs := range want.at {
		if a, b := shown(kvs), shown(got.at[revision]); a != b {
			t.Fatalf("at %d: kine has\n%s\nwant\n%s", revision, b, a)
		}
	}
	// An old kine does not have what kube-apiserver stores there.
	if a, b := want.compact, got.compact; newer && (a.GetVersion() != b.GetVersion() ||
		a.GetModRevision() != b.GetModRevision() || !bytes.Equal(a.GetValue(), b.GetValue())) {
		t.Errorf("compact_rev_key is %v, want %v", b, a)
	}
}

func connect(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// export exports the store in a directory, on which no server runs.
func export(t *testing.T, dir, url string) error {
	t.Helper()
	cfg := sqlstore.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)}
	b, err := cfg.OpenBackend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := store.Open(t.Context(), b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	exported := &kine.Store{Revision: x.Revision, Compacted: x.Compacted, Rows: x.Rows}
	for _, l := range x.Leases {
		exported.Leases = append(exported.Leases, backend.Lease{ID: l.ID, TTL: l.Granted})
	}
	return kine.Export(t.Context(), url, exported)
}

// watch describes all events above the compacted revision. kine shows no values before it.
func watch(t *testing.T, client *clientv3.Client, l *lists) string {
	t.Helper()
	var b strings.Builder
	ctx := clientv3.WithRequireLeader(t.Context())
	for resp := range client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(),
		clientv3.WithRev(l.compacted+1)) {
		if resp.Err() != nil {
			t.Fatal(resp.Err())
		}
		for _, e := range resp.Events {
			fmt.Fprintf(&b, "%v %s@%d=%.20x", e.Type, e.Kv.Key, e.Kv.ModRevision, e.Kv.Value)
			if e.PrevKv != nil && e.PrevKv.ModRevision >= l.compacted {
				fmt.Fprintf(&b, " after %d=%.20x", e.PrevKv.ModRevision, e.PrevKv.Value)
			}
			b.WriteByte('\n')
			if e.Kv.ModRevision == l.current {
				return b.String()
			}
		}
	}
	t.Fatal("the watch has ended")
	return ""
}

// difference returns the first lines that differ.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%s, want %s", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// What kine cannot store is refused with the revision, and the target stays as it was.
func TestExportRefuses(t *testing.T) {
	source := launch.Start(t, launch.Config{})
	client := connect(t, source.Endpoint())
	resp, err := client.Txn(t.Context()).Then(clientv3.OpPut("/a", "1"), clientv3.OpPut("/b", "2")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	url := kine.Prefix + "sqlite://" + filepath.Join(t.TempDir(), "state.db")
	err = export(t, source.DataDir(), url)
	if !errors.Is(err, kine.ErrCannotStore) || !strings.Contains(err.Error(), fmt.Sprintf("revision %d ",
		resp.Header.Revision)) {
		t.Errorf("two keys in one revision: %v", err)
	}
	if _, err := kine.Open(t.Context(), url); err == nil {
		t.Error("the refused export has left something")
	}
}
