package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// eventually calls f until it returns no error.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// probe fetches a page and checks its status and a part of its body.
func probe(url string, code int, part string) error {
	resp, err := http.Get(url) //nolint:noctx // a test's own loopback server
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != code || !strings.Contains(string(body), part) {
		return fmt.Errorf("%s: %d %s, %w; want %d with %q", url, resp.StatusCode, body, err, code, part)
	}
	return nil
}

// While the database hangs, requests fail with etcd's Unavailable before the client's deadline, streams that require a
// leader end, and probes and metrics report it without hanging. Afterwards everything recovers without help.
func TestUnresponsiveDatabase(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	s, c := start(t, sqlstore.Config{Datastore: server.Database(t)})
	ctx, url := t.Context(), s.Endpoints()[0]
	if _, err := c.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "k", clientv3.WithCreatedNotify())
	patient := c.Watch(ctx, "k", clientv3.WithCreatedNotify())
	<-watch
	<-patient
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	// clientv3 would retry these
	kv, leases := pb.NewKVClient(c.ActiveConnection()), pb.NewLeaseClient(c.ActiveConnection())
	calls := map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { _, err := c.Put(ctx, "k", "lost?"); return err },
		"grant": func(ctx context.Context) error {
			_, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
			return err
		},
	}
	failed := make(chan error, len(calls))
	for name, call := range calls {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			err := rpctypes.Error(call(ctx))
			if !errors.Is(err, rpctypes.ErrTimeout) || ctx.Err() != nil {
				failed <- fmt.Errorf("%s: %w, want %w", name, err, rpctypes.ErrTimeout)
				return
			}
			failed <- nil
		}()
	}
	if r := <-watch; !errors.Is(r.Err(), rpctypes.ErrNoLeader) {
		t.Errorf("the watch that asked for a leader ended with %v", r.Err())
	}
	for _, want := range []struct {
		path string
		code int
		part string
	}{
		{"/readyz", http.StatusServiceUnavailable, "[-]database failed"},
		{"/health", http.StatusServiceUnavailable, `"health":"false"`},
		{"/health?serializable=true", http.StatusOK, `"health":"true"`},
		{"/health?exclude=NOSPACE&serializable=true", http.StatusOK, `"health":"true"`},
		{"/health?serializable=false", http.StatusServiceUnavailable, `"health":"false"`},
		{"/livez", http.StatusOK, "ok"},
		{"/metrics", http.StatusOK, "\netcd_server_has_leader 0\n"},
		{"/metrics", http.StatusOK, "\netcd_server_is_leader 0\n"},
	} {
		if err := probe(url+want.path, want.code, want.part); err != nil {
			t.Error(err)
		}
	}
	if st, err := c.Status(ctx, url); err != nil || len(st.Errors) != 1 || st.Leader != 0 {
		t.Errorf("status %v, %v", st, err)
	}
	if got, err := c.Get(ctx, "k", clientv3.WithSerializable()); err != nil || len(got.Kvs) != 1 {
		t.Errorf("a serializable read: %v, %v", got, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// The answer should come before the deadline, but on a busy machine the client may notice the deadline first.
	if _, err := kv.Range(short, &pb.RangeRequest{Key: []byte("k")}); !errors.Is(rpctypes.Error(err),
		rpctypes.ErrTimeout) && short.Err() == nil {
		t.Errorf("a read: %v", err)
	}
	for range calls {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if err := server.Unpause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", func() error { return probe(url+"/readyz", http.StatusOK, "ok") })
	put, err := c.Put(ctx, "k", "after")
	if err != nil {
		t.Fatal(err)
	}
	for {
		r := <-patient
		if r.Err() != nil {
			t.Fatalf("a watch that asked for no leader: %v", r.Err())
		}
		if last := r.Events[len(r.Events)-1]; last.Kv.ModRevision == put.Header.Revision {
			break
		}
	}
}

// One of two replicas compacts; when it stops, the other takes over.
func TestCompactionMovesOn(t *testing.T) {
	t.Parallel()
	cfg := sqlstore.Config{Datastore: pgserver.Database(t), Compaction: compactor.Config{
		Mode:      compactor.Periodic,
		Retention: "1s",
	}}
	first, c := start(t, cfg)
	second, c2 := start(t, cfg)
	put := func(c *clientv3.Client) int64 {
		t.Helper()
		r, err := c.Put(t.Context(), "k", "v")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	compacted := func(s *sqlstore.Server, least int64) func() error {
		return func() error {
			if got := s.Store().Compacted(); got < least {
				return fmt.Errorf("compacted to %d, want %d", got, least)
			}
			return nil
		}
	}
	rev := put(c)
	eventually(t, "seen by the first", compacted(first, rev))
	eventually(t, "seen by the second", compacted(second, rev))
	if !first.Store().Leads() || second.Store().Leads() {
		t.Fatalf("leads: first %v, second %v", first.Store().Leads(), second.Store().Leads())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "taken over", compacted(second, put(c2)))
	if !second.Store().Leads() {
		t.Error("it compacted and does not lead")
	}
}

// Maintenance calls work on any replica, and all replicas see their effects.
func TestMaintenanceOnAnyReplica(t *testing.T) {
	cfg := sqlstore.Config{Datastore: pgserver.Database(t)}
	a, ca := start(t, cfg)
	b, cb := start(t, cfg)
	ctx := t.Context()
	lease, err := ca.Grant(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := ca.Put(ctx, fmt.Sprintf("k%d", i%10), strings.Repeat("v", 1000),
			clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cb.Compact(ctx, 20); err != nil {
		t.Fatal(err)
	}
	clients := map[*clientv3.Client]string{ca: a.Endpoints()[0], cb: b.Endpoints()[0]}
	var hashes, fileHashes []uint32
	var sizes []int
	for c, endpoint := range clients {
		if _, err := c.Defragment(ctx, endpoint); err != nil {
			t.Error(err)
		}
		h, err := c.HashKV(ctx, endpoint, 0)
		if err != nil || h.CompactRevision != 20 || h.HashRevision != 51 {
			t.Errorf("hash %v, %v", h, err)
			continue
		}
		hashes = append(hashes, h.Hash)
		r, err := c.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(r)
		if err != nil || r.Close() != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(file))
		// The file also has the remaining seconds of the lease, which its hash leaves out.
		fileHash, err := pb.NewMaintenanceClient(c.ActiveConnection()).Hash(ctx, &pb.HashRequest{})
		if err != nil {
			t.Fatal(err)
		}
		fileHashes = append(fileHashes, fileHash.Hash)
	}
	if hashes[0] != hashes[1] || fileHashes[0] != fileHashes[1] || sizes[0] != sizes[1] || sizes[0] == 0 {
		t.Errorf("hashes %v, of the files %v, which have %v bytes", hashes, fileHashes, sizes)
	}

	// An alarm that one replica raises stops writes on both. Either can clear it, even after the one that raised it has
	// stopped.
	raiser := a.Store().Settings().MemberID
	if raiser == b.Store().Settings().MemberID {
		t.Fatal("both replicas have one id")
	}
	m := pb.NewMaintenanceClient(ca.ActiveConnection())
	if _, err := m.Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: raiser,
		Alarm: pb.AlarmType_NOSPACE,
	}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the alarm on the other replica", func() error {
		if _, err := cb.Put(ctx, "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
			return fmt.Errorf("a put: %w", err)
		}
		return nil
	})
	list, err := cb.AlarmList(ctx)
	if err != nil || len(list.Alarms) != 1 || list.Alarms[0].MemberID != raiser {
		t.Errorf("alarms %v, %v", list, err)
	}
	if _, err := cb.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cb.Put(ctx, "k", "v"); err != nil {
		t.Errorf("after the alarm: %v", err)
	}
	st, err := cb.Status(ctx, b.Endpoints()[0])
	if err != nil || st.DbSizeQuota != 0 || len(st.Errors) != 0 || st.DbSize <= 0 {
		t.Errorf("status %v, %v", st, err)
	}
}
