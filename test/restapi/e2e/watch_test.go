package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// TestWatchAcrossKill follows thousands of changes with several watches, while one server after another is killed and
// restarted. Each watch receives every change once and in order, what etcd's API shows of the same versions, though it
// is cut off and resumed at the other replica.
func TestWatchAcrossKill(t *testing.T) {
	onEach(t, followAcrossKill, "--watch-progress-notify-interval", "200ms")
}

func followAcrossKill(t *testing.T, s *store) {
	const objects, watchers, changes = 500, 4, 500
	s.fill(t, objects)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	start, err := semantics.GetList(ctx, s.client, s.url("/load/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, errs := make([]*watcher, watchers), make([]error, watchers)
	var wg sync.WaitGroup
	for n := range all {
		all[n] = &watcher{s: s, prefix: "/load/", done: start.Revision, each: 97 * n}
		wg.Go(func() { errs[n] = all[n].run(ctx, "zz-last") })
	}

	stop := s.write(t, objects)
	s.passes(ctx, t, start.Revision+changes)
	for _, server := range s.servers {
		at := s.revision(ctx, t)
		server.Kill()
		server.Restart(t)
		s.passes(ctx, t, at+changes)
	}
	stop()
	last, err := s.etcd.Put(ctx, "/load/zz-last", "")
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	want := s.changes(ctx, t, "/load/", start.Revision+1, last.Header.Revision)
	for n, f := range all {
		if errs[n] != nil {
			t.Errorf("watcher %d: %v", n, errs[n])
		}
		if !slices.Equal(f.events, want) {
			t.Errorf("watcher %d received %d events, etcd's API has %d%s", n, len(f.events), len(want),
				difference(f.events, want))
		}
		t.Logf("watcher %d: %d events, %d bookmarks, %d watches", n, len(f.events), f.marks, f.began)
		if f.began < 2 && (f.each > 0 || len(s.servers) == 1) {
			t.Errorf("watcher %d was not cut off", n)
		}
	}
}

// revision returns the store's revision.
func (s *store) revision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	res, err := s.etcd.Get(ctx, "none")
	if err != nil {
		t.Fatal(err)
	}
	return res.Header.Revision
}

// passes waits until the store's revision exceeds a number.
func (s *store) passes(ctx context.Context, t *testing.T, revision int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := s.etcd.Get(ctx, "none") // fails while a server is down
		if err == nil && res.Header.Revision > revision {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the writers did not reach %d: %v", revision, err)
		case <-tick.C:
		}
	}
}

// changes returns what etcd's API shows of the versions from one to another.
func (s *store) changes(ctx context.Context, t *testing.T, prefix string, from, to int64) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []string
	for res := range s.etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := res.Err(); err != nil {
			t.Fatal(err)
		}
		for _, e := range res.Events {
			kind := "MODIFIED"
			if e.IsCreate() {
				kind = "ADDED"
			}
			if e.Type == clientv3.EventTypeDelete {
				kind = "DELETED"
			}
			key := string(e.Kv.Key)
			all = append(all, fmt.Sprintf("%d %s %s", e.Kv.ModRevision, kind, key[strings.LastIndex(key, "/")+1:]))
			if e.Kv.ModRevision >= to {
				return all
			}
		}
	}
	t.Fatalf("etcd's watch ended at %v", ctx.Err())
	return nil
}

// difference shows where two lists diverge.
func difference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("; event %d is %s, want %s", i, got[i], want[i])
		}
	}
	return ""
}
