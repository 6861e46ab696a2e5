package journal

import (
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// Verify compares an idle server with the model and its journal, and the watchers with the server's history. The model
// then has that history, whose writes the journal forgets.
func Verify(ctx context.Context, endpoint string, m *Model, watchers []*Watcher) error {
	conn, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	kv := pb.NewKVClient(conn)
	now, err := kv.Range(ctx, Everything(0))
	if err != nil {
		return err
	}
	to := now.Header.Revision
	events, err := History(ctx, conn, m.Rev+1, to)
	if err != nil {
		return err
	}

	half := 0 // half of the history first, so that a read in the past can be compared
	for half < len(events)/2 {
		half += FirstRevision(events[half:])
	}
	if err := m.advance(events[:half]); err != nil {
		return err
	}
	if half > 0 {
		then, err := kv.Range(ctx, Everything(m.Rev))
		if err != nil {
			return err
		}
		if err := SameKeys(then.Kvs, m.List()); err != nil {
			return fmt.Errorf("range at the past revision %d: %w", m.Rev, err)
		}
	}
	if err := m.advance(events[half:]); err != nil {
		return err
	}
	if err := m.finish(to); err != nil {
		return err
	}
	if err := SameKeys(now.Kvs, m.List()); err != nil {
		return fmt.Errorf("range at the current revision %d: %w", to, err)
	}
	if err := verifyLeases(ctx, pb.NewLeaseClient(conn), m); err != nil {
		return err
	}
	for _, w := range watchers {
		if err := verifyWatcher(ctx, w, events, to); err != nil {
			return err
		}
	}
	return nil
}

// Everything asks for all keys at a revision, 0 for the newest.
func Everything(rev int64) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev}
}

// History reads all events of the revisions from..to.
func History(ctx context.Context, conn *grpc.ClientConn, from, to int64) ([]*mvccpb.Event, error) {
	if from > to {
		return nil, nil
	}
	w := &Watcher{key: "\x00", end: "\x00", conn: conn, seen: from - 1, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.stream(ctx)
	return w.wait(ctx, to)
}

func verifyWatcher(ctx context.Context, w *Watcher, events []*mvccpb.Event, to int64) error {
	want := slices.DeleteFunc(slices.Clone(events), func(e *mvccpb.Event) bool { return !w.matches(e) })
	if len(want) > 0 {
		got, err := w.wait(ctx, want[len(want)-1].Kv.ModRevision)
		if err != nil {
			return err
		}
		for i := range max(len(want), len(got)) {
			if i >= len(got) || i >= len(want) || !proto.Equal(got[i], want[i]) {
				return fmt.Errorf("watch of %q has %d events, the history %d; the first difference is event %d: %v, %v",
					w.key, len(got), len(want), i, got[min(i, len(got)):][:min(1, len(got)-i)],
					want[min(i, len(want)):][:min(1, len(want)-i)])
			}
		}
	}
	w.skip(to)
	return w.broken()
}

// verifyLeases compares the leases with what clients know. If the outcome of a revocation is unknown, the lease's key
// decides.
func verifyLeases(ctx context.Context, c pb.LeaseClient, m *Model) error {
	list, err := c.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return err
	}
	there := map[int64]bool{}
	for _, l := range list.Leases {
		there[l.ID] = true
	}
	for _, kv := range m.List() {
		if kv.Lease != 0 && !there[kv.Lease] {
			return fmt.Errorf("key %q is on lease %d, which does not exist", kv.Key, kv.Lease)
		}
	}
	for id, l := range m.j.leaseStates() {
		switch {
		case l.granted == Acked && !l.wantRevoked && !there[id]:
			return fmt.Errorf("lease %d was granted and does not exist", id)
		case l.revoked == Acked && there[id]:
			return fmt.Errorf("lease %d was revoked and still exists", id)
		}
		if !there[id] {
			m.j.dropLease(id)
			continue
		}
		if err := verifyLease(ctx, c, m, id); err != nil {
			return err
		}
	}
	return nil
}

func verifyLease(ctx context.Context, c pb.LeaseClient, m *Model, id int64) error {
	r, err := c.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	if err != nil {
		return err
	}
	if r.TTL <= 0 || r.GrantedTTL != leaseTTL {
		return fmt.Errorf("lease %d: %v", id, r)
	}
	kv := m.keys[leaseKey(id)]
	switch {
	case kv == nil && len(r.Keys) == 0:
	case kv != nil && kv.Lease == id && len(r.Keys) == 1 && string(r.Keys[0]) == leaseKey(id):
	default:
		return fmt.Errorf("lease %d has keys %q, want %v", id, r.Keys, kv)
	}
	return nil
}

// SameKeys returns an error unless both lists are equal.
func SameKeys(got, want []*mvccpb.KeyValue) error {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("misses %v", want[i])
		case i >= len(want):
			return fmt.Errorf("has too much: %v", got[i])
		case !proto.Equal(got[i], want[i]):
			return fmt.Errorf("has %v, want %v", got[i], want[i])
		}
	}
	return nil
}
