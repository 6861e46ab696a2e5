package sidebyside

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// Over its quota a server refuses only what would make the database larger, until the alarm is cleared.
func TestQuota(t *testing.T) {
	etcd, target := startBoth(t, "--quota-backend-bytes", "2097152")
	p := newPlayer(etcd, target)
	ctx := within(t)
	if err := p.ask(ctx, grantCall(&pb.LeaseGrantRequest{ID: 1, TTL: 3600})); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*side{etcd, target} {
		fill(t, ctx, s)
	}
	const full = "etcdserver: mvcc: database space exceeded"
	for _, c := range []call{
		putCall(&pb.PutRequest{Key: []byte("a")}),
		txnCall(success(putOp("a"))),
		txnCall(failure(putOp("a"))),
		grantCall(&pb.LeaseGrantRequest{ID: 2, TTL: 60}),
	} {
		checkRefusal(t, refusal{c, codes.ResourceExhausted, full}, etcd, target)
	}
	for _, s := range []*side{etcd, target} {
		emptyAgain(t, ctx, s)
	}
}

// fill puts until the quota refuses it, and checks that there is an alarm.
func fill(t *testing.T, ctx context.Context, s *side) {
	t.Helper()
	for i := 0; ; i++ {
		got := s.ask(ctx, putCall(&pb.PutRequest{Key: []byte{'k', byte(i)}, Value: bytes.Repeat([]byte{byte(i)},
			512<<10)}))
		if got.err != nil {
			break
		}
		if i == 100 {
			t.Fatalf("%s: 50 MiB fit into a quota of 2", s.name)
		}
	}
	alarms, err := s.maint.Alarm(ctx, &pb.AlarmRequest{})
	if err != nil || len(alarms.Alarms) != 1 || alarms.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("%s: alarms %v, %v; want NOSPACE", s.name, alarms, err)
	}
}

// emptyAgain frees space in a full server, which must allow every request that this needs.
func emptyAgain(t *testing.T, ctx context.Context, s *side) {
	t.Helper()
	list, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil {
		t.Fatalf("%s: read while full: %v", s.name, err)
	}
	deleted := s.ask(ctx, deleteCall(&pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}))
	if deleted.err != nil || deleted.msg.(*pb.DeleteRangeResponse).Deleted != list.Count {
		t.Fatalf("%s: delete while full: %s", s.name, deleted)
	}
	for _, c := range []call{
		compactCall(&pb.CompactionRequest{
			Revision: deleted.msg.(*pb.DeleteRangeResponse).Header.Revision,
			Physical: true,
		}),
		revokeCall(&pb.LeaseRevokeRequest{ID: 1}),
		clusterCall("Defragment", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.maint.Defragment(ctx, &pb.DefragmentRequest{})
		}),
		clusterCall("Alarm", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return nil, disarm(ctx, s)
		}),
		putCall(&pb.PutRequest{Key: []byte("a")}),
	} {
		if got := s.ask(ctx, c); got.err != nil {
			t.Errorf("%s: %s: %s", s.name, c.method, got)
		}
	}
}

// disarm clears each alarm, which names the member that raised it.
func disarm(ctx context.Context, s *side) error {
	r, err := s.maint.Alarm(ctx, &pb.AlarmRequest{})
	for _, a := range r.GetAlarms() {
		_, errClear := s.maint.Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID,
			Alarm: a.Alarm,
		})
		err = errors.Join(err, errClear)
	}
	return err
}

// Status and MemberList necessarily differ; these are the properties that clients rely on.
func TestStatusAndMembers(t *testing.T) {
	// Postgres has no quota by default
	etcd, target := startBoth(t, "--quota-backend-bytes", "1000000000")
	ctx := within(t)
	for _, s := range []*side{etcd, target} {
		for _, key := range []string{"a", "b"} {
			if got := s.ask(ctx, putCall(&pb.PutRequest{Key: []byte(key)})); got.err != nil {
				t.Fatal(got)
			}
		}
		status, err := s.maint.Status(ctx, &pb.StatusRequest{})
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		members, err := s.cluster.MemberList(ctx, &pb.MemberListRequest{})
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		self := status.Header.MemberId
		for what, ok := range map[string]bool{
			"version is 3.7.x": strings.HasPrefix(status.Version, "3.7.") &&
				strings.Count(status.Version, ".") == 2,
			"storage version is 3.7.0": status.StorageVersion == "3.7.0",
			"revision":                 status.Header.Revision == 3,
			"db size":                  status.DbSize >= status.DbSizeInUse && status.DbSizeInUse > 0,
			"leader is a member":       has(members.Members, status.Leader) && self != 0,
			"term and indexes":         status.RaftTerm > 0 && status.RaftIndex > 0 && status.RaftAppliedIndex > 0,
			"no errors":                len(status.Errors) == 0,
			"not a learner":            !status.IsLearner,
			"same cluster": members.Header.ClusterId == status.Header.ClusterId &&
				members.Header.ClusterId != 0,
			"as many members as replicas": len(members.Members) == max(len(s.all), 1) && has(members.Members,
				members.Header.MemberId),
			"answered by a member":         has(members.Members, self),
			"members' header has no rev":   members.Header.Revision == 0,
			"member's client URL":          len(members.Members) > 0 && len(members.Members[0].ClientURLs) == 1,
			"member has a name":            len(members.Members) > 0 && members.Members[0].Name != "",
			"quota":                        status.DbSizeQuota == 1_000_000_000,
			"downgrade not under way":      !status.DowngradeInfo.GetEnabled(),
			"header's term is status' own": status.Header.RaftTerm == status.RaftTerm,
		} {
			if !ok {
				t.Errorf("%s: %s: status %s; members %s", s.name, what, text(status), text(members))
			}
		}
		before := status.RaftIndex
		if got := s.ask(ctx, putCall(&pb.PutRequest{Key: []byte("a")})); got.err != nil {
			t.Fatal(got)
		}
		if status, err = s.maint.Status(ctx, &pb.StatusRequest{}); err != nil || status.RaftIndex <= before {
			t.Errorf("%s: raft index %d after %d, %v; want it to grow", s.name, status.GetRaftIndex(), before, err)
		}
	}
}

func has(members []*pb.Member, id uint64) bool {
	return slices.ContainsFunc(members, func(m *pb.Member) bool { return m.ID == id })
}

// Requests to the other services that both servers answer alike.
func TestOtherAnswers(t *testing.T) {
	etcd, target := startBoth(t)
	p := newPlayer(etcd, target)
	ctx := within(t)
	for _, c := range []call{
		clusterCall("Alarm get", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.maint.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
		}),
		clusterCall("Alarm deactivate what is not there",
			func(ctx context.Context, s *side, self uint64) (proto.Message, error) {
				return s.maint.Alarm(ctx, &pb.AlarmRequest{
					Action: pb.AlarmRequest_DEACTIVATE, MemberID: self,
					Alarm: pb.AlarmType_NOSPACE,
				})
			}),
		clusterCall("MoveLeader to itself", func(ctx context.Context, s *side, self uint64) (proto.Message, error) {
			return s.maint.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: self})
		}),
		clusterCall("Defragment", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.maint.Defragment(ctx, &pb.DefragmentRequest{})
		}),
		clusterCall("AuthStatus", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.auth.AuthStatus(ctx, &pb.AuthStatusRequest{})
		}),
		clusterCall("Downgrade cancel", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.maint.Downgrade(ctx, &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
		}),
		validateCall("nonsense"), validateCall(""), validateCall("3"), validateCall("3.7.x"), validateCall("v3.6"),
		validateCall("3.5"), validateCall("3.6"), validateCall("3.6.0"), validateCall("3.6.9-rc.1"),
		validateCall("3.7"), validateCall("3.8"), validateCall("4.6"),
		hashKVCall(&pb.HashKVRequest{}),
		hashKVCall(&pb.HashKVRequest{Revision: -4}),
		compactCall(&pb.CompactionRequest{}), // succeeds once, on a store that was never compacted
		leasesCall(),
		timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: 99}),
		keepAliveCall(&pb.LeaseKeepAliveRequest{ID: 99}),
	} {
		if err := p.ask(ctx, c); err != nil {
			t.Error(err)
		}
	}
}

// validateCall asks whether a downgrade to a version is possible.
func validateCall(version string) call {
	return clusterCall("Downgrade validate "+version, func(
		ctx context.Context, s *side, _ uint64,
	) (proto.Message, error) {
		return s.maint.Downgrade(ctx, &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: version})
	})
}
