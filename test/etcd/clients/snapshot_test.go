package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// There is no lock-in: etcdutl restores a snapshot that etcdctl saved from the target into a directory that a real etcd
// serves, with all revisions, all history since the compaction, and the leases.
func TestSnapshotRestoresIntoEtcd(t *testing.T) {
	for name, compact := range map[string]int64{
		"not compacted": 0, "compacted": 20,
		"compacted at the last revision": 41,
	} {
		t.Run(name, func(t *testing.T) { snapshotAndRestore(t, compact) })
	}
}

func snapshotAndRestore(t *testing.T, compact int64) {
	target := servers.Target(t, "--unsafe-no-fsync")
	source := connect(t, target)
	writeHistory(t, source, compact)

	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, target.Endpoint(), "", "snapshot", "save", file).must(t)
	var status struct {
		Revision  int64
		TotalKey  int
		TotalSize int64
	}
	if err := json.Unmarshal([]byte(utl(t, "snapshot", "status", file, "-w", "json").must(t)), &status); err != nil {
		t.Fatal(err)
	}
	if status.Revision != 41 || status.TotalKey == 0 || status.TotalSize == 0 {
		t.Errorf("snapshot status %+v, want revision 41, keys and a size", status)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	utl(t, "snapshot", "restore", file, "--data-dir", dir).must(t)
	restored := connect(t, launch.Start(t, servers.EtcdConfig(t, dir)))

	hash, err := source.maint.Hash(t.Context(), &pb.HashRequest{})
	if want := hashFile(t, file); err != nil || hash.Hash != want {
		t.Errorf("hash %v, %v; the snapshot's is %d", hash, err, want)
	}
	compareHistory(t, source, restored, compact)
	compareLeases(t, source, restored)
	compareHashes(t, source, restored, compact)

	// The restored etcd continues from there.
	put, err := restored.kv.Put(t.Context(), &pb.PutRequest{Key: []byte("after")})
	if err != nil || put.Header.Revision != 42 {
		t.Errorf("first write to the restored etcd: %v, %v; want revision 42", put, err)
	}
}

// services are the clients of one server.
type services struct {
	kv    pb.KVClient
	lease pb.LeaseClient
	watch pb.WatchClient
	maint pb.MaintenanceClient
}

func connect(t *testing.T, server *launch.Server) services {
	t.Helper()
	return connectTo(t, server.Endpoint())
}

func connectTo(t *testing.T, address string) services {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return services{
		pb.NewKVClient(conn), pb.NewLeaseClient(conn), pb.NewWatchClient(conn), pb.NewMaintenanceClient(conn),
	}
}

// writeHistory brings a new server to revision 41, with updates, deletions, transactions of several keys, and leases;
// and compacts it, unless compact is 0.
func writeHistory(t *testing.T, s services, compact int64) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for id := int64(1); id <= 3; id++ {
		_, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 1000 * id})
		must(err)
	}
	for i := range 36 {
		key := fmt.Appendf(nil, "k/%d", i%7)
		var err error
		switch i % 6 {
		case 4:
			_, err = s.kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
				put(fmt.Sprintf("t/%d", i), "one"), put(string(key), "two"),
			}})
		case 5:
			_, err = s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("t/"), RangeEnd: []byte("t0")})
		default:
			_, err = s.kv.Put(ctx, &pb.PutRequest{
				Key: key, Value: fmt.Appendf(nil, "value %d", i),
				Lease: int64(i % 3),
			})
		}
		must(err)
	}
	// The last revision deletes, so that a snapshot compacted there has no live row of it.
	for _, value := range []string{"1", "2", "3"} {
		_, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte("\x00last\xff"), Value: []byte(value), Lease: 3})
		must(err)
	}
	r, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("\x00last\xff")})
	must(err)
	if r.Header.Revision != 41 {
		t.Fatalf("history ends at revision %d, want 41", r.Header.Revision)
	}
	if compact != 0 {
		_, err := s.kv.Compact(ctx, &pb.CompactionRequest{Revision: compact, Physical: true})
		must(err)
	}
}

func put(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key:   []byte(key),
		Value: []byte(value),
	}}}
}

// compareHistory compares ranges at every revision, and all events since the compaction.
func compareHistory(t *testing.T, a, b services, compact int64) {
	t.Helper()
	for rev := range int64(44) {
		r := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev}
		want, wantErr := a.kv.Range(t.Context(), r)
		got, gotErr := b.kv.Range(t.Context(), r)
		if status.Code(gotErr) != status.Code(wantErr) ||
			status.Convert(gotErr).Message() != status.Convert(wantErr).Message() {
			t.Errorf("range at %d: %v, want %v", rev, gotErr, wantErr)
		}
		if wantErr == nil && status.Code(gotErr) == codes.OK && (got.Header.Revision != want.Header.Revision ||
			!slices.EqualFunc(got.Kvs, want.Kvs, equal)) {
			t.Errorf("range at %d:\n%v\nwant\n%v", rev, got, want)
		}
	}
	from := max(compact, 1)
	want, got := events(t, a, from), events(t, b, from)
	if !slices.EqualFunc(got, want, equal) {
		t.Errorf("events from %d:\n%v\nwant\n%v", from, got, want)
	}
}

func equal[M proto.Message](a, b M) bool { return proto.Equal(a, b) }

// events returns all events from a revision to 41. Those of the first revision have no prev_kv, which compaction may or
// may not have kept.
func events(t *testing.T, s services, from int64) []*mvccpb.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	stream, err := s.watch.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{
			Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: from, PrevKv: true,
		},
	}})
	var all []*mvccpb.Event
	for err == nil && (len(all) == 0 || all[len(all)-1].Kv.ModRevision < 41) {
		var r *pb.WatchResponse
		r, err = stream.Recv()
		all = append(all, r.GetEvents()...)
	}
	if err != nil {
		t.Fatalf("watch from %d: %v, after %v", from, err, all)
	}
	for _, e := range all {
		if e.Kv.ModRevision == from {
			e.PrevKv = nil
		}
	}
	return all
}

func compareLeases(t *testing.T, a, b services) {
	t.Helper()
	for id := int64(1); id <= 4; id++ { // 4 does not exist
		r := &pb.LeaseTimeToLiveRequest{ID: id, Keys: true}
		want, err := a.lease.LeaseTimeToLive(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.lease.LeaseTimeToLive(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(want.Keys, bytes.Compare)
		slices.SortFunc(got.Keys, bytes.Compare)
		if got.GrantedTTL != want.GrantedTTL || (got.TTL > 0) != (want.TTL > 0) || !slices.EqualFunc(got.Keys,
			want.Keys, bytes.Equal) {
			t.Errorf("lease %d: %v, want %v", id, got, want)
		}
	}
}

// compareHashes compares HashKV at every revision.
func compareHashes(t *testing.T, a, b services, compact int64) {
	t.Helper()
	from := compact
	if servers.TargetIsEtcd() {
		from++ // until it restarts, etcd answers with what it hashed when it compacted
	}
	for rev := from; rev <= 41; rev++ {
		want, err := a.maint.HashKV(t.Context(), &pb.HashKVRequest{Revision: rev})
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.maint.HashKV(t.Context(), &pb.HashKVRequest{Revision: rev})
		if err != nil {
			t.Fatal(err)
		}
		want.Header, got.Header = nil, nil
		if !proto.Equal(got, want) {
			t.Errorf("hash at %d: %v, want %v", rev, got, want)
		}
	}
}

// hashFile hashes a snapshot as etcd hashes its file: all but what etcd's own members do not agree on, and what is left
// of leases, on which replicas of sqlstore do not agree.
func hashFile(t *testing.T, file string) uint32 {
	t.Helper()
	db, err := bbolt.Open(file, 0o400, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			sum.Write(name)
			return b.ForEach(func(k, v []byte) error {
				if string(name) == "lease" {
					var lease leasepb.Lease
					if err := proto.Unmarshal(v, &lease); err != nil {
						return err
					}
					lease.RemainingTTL = 0
					var err error
					if v, err = proto.Marshal(&lease); err != nil {
						return err
					}
				}
				if !schema.DefaultIgnores(name, k) {
					sum.Write(k)
					sum.Write(v)
				}
				return nil
			})
		})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return sum.Sum32()
}
