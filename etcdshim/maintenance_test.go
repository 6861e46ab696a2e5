package etcdshim

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/store"
)

func TestStatusAndMembers(t *testing.T) {
	s := serve(t, Options{Name: "me", ClientURLs: []string{"http://127.0.0.1:2379"}}, store.Config{})
	ctx := t.Context()
	s.put(t, "a", "1")
	st, err := s.maint.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if st.Version != "3.7.3" || st.StorageVersion != "3.7.0" || st.Header.Revision != 2 || st.RaftIndex != 2 ||
		st.RaftTerm == 0 ||
		st.Leader != st.Header.MemberId || st.DbSize < st.DbSizeInUse || st.DbSizeInUse <= 0 ||
		st.DbSizeQuota != 2<<30 || len(st.Errors) != 0 {
		t.Errorf("status %v", st)
	}
	members := pb.NewClusterClient(s.conn)
	l, err := members.MemberList(ctx, &pb.MemberListRequest{})
	if err != nil || len(l.Members) != 1 || l.Members[0].ID != st.Header.MemberId || l.Members[0].Name != "me" ||
		len(l.Members[0].ClientURLs) != 1 || len(l.Members[0].PeerURLs) != 1 || l.Header.Revision != 0 ||
		l.Header.ClusterId != st.Header.ClusterId {
		t.Errorf("members %v, %v", l, err)
	}
	self := st.Header.MemberId
	auth := pb.NewAuthClient(s.conn)
	for name, c := range map[string]struct {
		call func() error
		code codes.Code
		text string
	}{
		"move leader to self": {func() error {
			_, err := s.maint.MoveLeader(ctx, &pb.MoveLeaderRequest{
				TargetID: self,
			})
			return err
		}, codes.OK, ""},
		"move leader": {
			func() error { _, err := s.maint.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: 9}); return err },
			codes.FailedPrecondition, "etcdserver: bad leader transferee",
		},
		"downgrade to nonsense": {
			func() error {
				_, err := s.maint.Downgrade(ctx, &pb.DowngradeRequest{
					Action:  pb.DowngradeRequest_VALIDATE,
					Version: "x",
				})
				return err
			},
			codes.InvalidArgument, "etcdserver: wrong downgrade target version format",
		},
		"downgrade": {
			func() error {
				_, err := s.maint.Downgrade(ctx, &pb.DowngradeRequest{
					Action:  pb.DowngradeRequest_ENABLE,
					Version: "3.6",
				})
				return err
			},
			codes.Unimplemented, "etcdserver: no downgrade can be enabled: the database is sqlstore's, which no etcd " +
				"reads",
		},
		"add with bad URLs": {
			func() error {
				_, err := members.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"x"}})
				return err
			},
			codes.InvalidArgument, "etcdserver: given member URLs are invalid",
		},
		"remove unknown": {
			func() error { _, err := members.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 9}); return err },
			codes.NotFound, "etcdserver: member not found",
		},
		"promote self": {
			func() error { _, err := members.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: self}); return err },
			codes.FailedPrecondition, "etcdserver: can only promote a learner member",
		},
		"authenticate": {
			func() error { _, err := auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root"}); return err },
			codes.FailedPrecondition, "etcdserver: authentication is not enabled",
		},
		"enable auth": {
			func() error { _, err := auth.AuthEnable(ctx, &pb.AuthEnableRequest{}); return err },
			codes.FailedPrecondition, "etcdserver: root user does not exist",
		},
		"add nobody": {
			func() error { _, err := auth.UserAdd(ctx, &pb.AuthUserAddRequest{}); return err },
			codes.InvalidArgument, "etcdserver: user name is empty",
		},
		"add a long name": {
			func() error {
				_, err := auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: strings.Repeat("n", 32769)})
				return err
			},
			codes.InvalidArgument, "etcdserver: the name of a user or role has more than 32768 bytes",
		},
	} {
		if got := status.Convert(c.call()); got.Code() != c.code || got.Message() != c.text {
			t.Errorf("%s: %v %q, want %v %q", name, got.Code(), got.Message(), c.code, c.text)
		}
	}
	h, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

func TestAlarm(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx := t.Context()
	call := func(r *pb.AlarmRequest) []*pb.AlarmMember {
		t.Helper()
		resp, err := s.maint.Alarm(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Alarms
	}
	if a := call(&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}); len(a) != 1 {
		t.Errorf("raised %v", a)
	}
	if _, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte("a")}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("put without space: %v", err)
	}
	st, err := s.maint.Status(ctx, &pb.StatusRequest{})
	if err != nil || len(st.Errors) != 1 || !strings.Contains(st.Errors[0], "NOSPACE") {
		t.Errorf("status: %v, %v", st, err)
	}
	if a := call(&pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE,
		MemberID: 55,
	}); len(a) != 0 {
		t.Errorf("cleared %v of another member", a)
	}
	got := call(&pb.AlarmRequest{Action: pb.AlarmRequest_GET})
	if len(got) != 1 || got[0].Alarm != pb.AlarmType_NOSPACE || got[0].MemberID != 0 {
		t.Fatalf("alarms %v", got)
	}
	if a := call(&pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE,
		MemberID: got[0].MemberID,
	}); len(a) != 1 {
		t.Errorf("cleared %v", a)
	}
	s.put(t, "a", "")
}

// A snapshot is a bbolt file with etcd's rows in it, and its checksum after it.
func TestSnapshot(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx := t.Context()
	for i := range 50 {
		s.put(t, fmt.Sprintf("k%02d", i), "old")
	}
	if _, err := s.kv.Compact(ctx, &pb.CompactionRequest{Revision: s.put(t, "k00", "new")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("k01")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 7, TTL: 100}); err != nil {
		t.Fatal(err)
	}
	stream, err := s.maint.Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	var last *pb.SnapshotResponse
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Version != "3.7.0" || last != nil && last.RemainingBytes != 0 &&
			last.RemainingBytes-r.RemainingBytes != uint64(len(r.Blob)) {
			t.Errorf("%d bytes left of version %s after %d more", r.RemainingBytes, r.Version, len(r.Blob))
		}
		raw.Write(r.Blob)
		last = r
	}
	body, sum := raw.Bytes()[:raw.Len()-sha256.Size], raw.Bytes()[raw.Len()-sha256.Size:]
	if want := sha256.Sum256(body); !bytes.Equal(sum, want[:]) || len(body)%512 != 0 || !bytes.Equal(last.Blob, sum) ||
		last.RemainingBytes != 0 {
		t.Fatalf("%d bytes with checksum %x, the last message %d bytes", len(body), sum, len(last.Blob))
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		rows, tombstones, previous := 0, 0, []byte(nil)
		c := tx.Bucket([]byte("key")).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return err
			}
			if bytes.Compare(k, previous) <= 0 || k[8] != '_' || len(k) != 17 && (len(k) != 18 || k[17] != 't') {
				t.Errorf("row key %x after %x", k, previous)
			}
			if string(kv.Key) == "k00" && string(kv.Value) != "new" {
				t.Errorf("superseded row %v", &kv)
			}
			rows++
			tombstones += len(k) - 17
			previous = bytes.Clone(k)
		}
		if rows != 51 || tombstones != 1 {
			t.Errorf("%d rows, %d of them tombstones; want 51, 1", rows, tombstones)
		}
		meta := tx.Bucket([]byte("meta"))
		if got := meta.Get([]byte("finishedCompactRev")); len(got) != 17 || got[7] != 52 {
			t.Errorf("compacted at %x, want 52", got)
		}
		if tx.Bucket([]byte("lease")).Stats().KeyN != 1 {
			t.Error("the lease is missing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
