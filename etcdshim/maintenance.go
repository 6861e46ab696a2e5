package etcdshim

import (
	"context"
	"slices"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

// clusterVersion is etcd's version without the patch level.
const clusterVersion = "3.7"

var errStaysLeader = status.Error(codes.Unimplemented, "etcdserver: the leadership cannot be moved by request: "+
	"stop this server, and another one takes over")

var errNoDowngrade = status.Error(codes.Unimplemented, "etcdserver: no downgrade can be enabled: the database "+
	"is sqlstore's, which no etcd reads")

// maintenance serves etcdserverpb.Maintenance.
type maintenance struct {
	engine  *store.Store
	id      *identities
	version string
	// noLeader is that of Options.
	noLeader                    func() <-chan struct{}
	snapshots                   *snapshots
	snapshotting, defragmenting *runs // in the log
	pb.UnsafeMaintenanceServer
}

func (s *maintenance) header() *pb.ResponseHeader { return s.id.header(s.engine.Revision()) }

func (s *maintenance) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := known(ctx, s.engine, s.noLeader()); err != nil {
		return nil, err
	}
	select {
	case <-s.noLeader(): // as in etcd, answer at once instead of waiting
		return s.statusWithoutLeader(), nil
	default:
	}
	st, err := s.engine.Status(ctx)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	resp := &pb.StatusResponse{
		Header: s.id.header(st.Revision), Version: s.version, StorageVersion: snapshot.StorageVersion,
		Leader: st.Leader, RaftTerm: s.id.now().term, RaftIndex: uint64(st.Revision),
		RaftAppliedIndex: uint64(st.Revision),
		DbSize:           st.DBSize, DbSizeInUse: st.DBSizeInUse, DbSizeQuota: st.Quota,
		DowngradeInfo: &pb.DowngradeInfo{},
	}
	for _, a := range st.Alarms {
		resp.Errors = append(resp.Errors, alarmMember(a).String())
	}
	return resp, nil
}

// statusWithoutLeader is what is known while the database is unreachable.
func (s *maintenance) statusWithoutLeader() *pb.StatusResponse {
	rev := s.engine.Revision()
	return &pb.StatusResponse{
		Header: s.id.header(rev), Version: s.version, StorageVersion: snapshot.StorageVersion,
		RaftTerm: s.id.now().term, RaftIndex: uint64(rev), RaftAppliedIndex: uint64(rev),
		Errors: []string{rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader)}, DowngradeInfo: &pb.DowngradeInfo{},
	}
}

func alarmMember(a store.Alarm) *pb.AlarmMember {
	return &pb.AlarmMember{MemberID: a.Member, Alarm: pb.AlarmType(a.Kind)}
}

func (s *maintenance) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if r.Action != pb.AlarmRequest_GET {
		if err := s.engine.CheckAdmin(ctx); err != nil {
			return nil, statusError(ctx, err)
		}
	}
	resp := &pb.AlarmResponse{}
	named := store.Alarm{Member: r.MemberID, Kind: store.AlarmKind(r.Alarm)}
	switch r.Action {
	case pb.AlarmRequest_GET:
		alarms, err := s.engine.ReadAlarms(ctx)
		if err != nil {
			return nil, statusError(ctx, err)
		}
		for _, a := range alarms {
			if named.Kind == store.AlarmNone || a.Kind == named.Kind {
				resp.Alarms = append(resp.Alarms, alarmMember(a))
			}
		}
	case pb.AlarmRequest_ACTIVATE:
		if named.Kind == store.AlarmNone {
			break
		}
		if err := s.engine.RaiseAlarm(ctx, named); err != nil {
			return nil, statusError(ctx, err)
		}
		resp.Alarms = []*pb.AlarmMember{alarmMember(named)}
	case pb.AlarmRequest_DEACTIVATE:
		cleared, err := s.engine.ClearAlarm(ctx, named) // of one member and kind: clients list them and clear each one
		if err != nil {
			return nil, statusError(ctx, err)
		}
		if cleared {
			resp.Alarms = []*pb.AlarmMember{alarmMember(named)}
		}
	}
	resp.Header = s.header()
	return resp, nil
}

func (s *maintenance) Defragment(ctx context.Context, _ *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	if err := s.engine.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	began := time.Now()
	log := s.defragmenting.begin("defragmentation started")
	if err := s.engine.Defragment(ctx); err != nil {
		log.Warn("defragmentation failed", "error", err, "took", time.Since(began))
		return nil, statusError(ctx, err)
	}
	log.Info("defragmentation done", "took", time.Since(began))
	return &pb.DefragmentResponse{}, nil
}

// MoveLeader can only move to this server: replicas take over the leadership when the leader stops.
func (s *maintenance) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	if err := s.engine.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	switch self := s.id.member(); {
	case s.engine.Leader() != self:
		return nil, rpctypes.ErrGRPCNotLeader
	case r.TargetID == self:
		return &pb.MoveLeaderResponse{}, nil
	case slices.ContainsFunc(s.engine.Members(), func(m backend.Member) bool { return m.ID == r.TargetID }):
		return nil, errStaysLeader
	}
	return nil, rpctypes.ErrGRPCBadLeaderTransferee
}

// Downgrade validates what etcd of this version can be downgraded to, but enables no downgrade: no older etcd reads the
// database.
func (s *maintenance) Downgrade(ctx context.Context, r *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	if err := s.engine.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	switch r.Action {
	case pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE:
		if err := validateDowngrade(r.Version); err != nil {
			return nil, err
		}
		if r.Action == pb.DowngradeRequest_ENABLE {
			return nil, errNoDowngrade
		}
	case pb.DowngradeRequest_CANCEL:
	default:
		return nil, status.Error(codes.Unknown, "etcdserver: unknown method")
	}
	return &pb.DowngradeResponse{Header: s.header(), Version: clusterVersion}, nil
}

// validateDowngrade accepts the minor version before this one, as 3.6 or 3.6.1.
func validateDowngrade(version string) error {
	to, err := semver.NewVersion(version)
	if err != nil {
		to, err = semver.NewVersion(version + ".0")
	}
	from := semver.Must(semver.NewVersion(clusterVersion + ".0"))
	switch {
	case err != nil:
		return rpctypes.ErrGRPCWrongDowngradeVersionFormat
	case to.Major != from.Major || to.Minor != from.Minor-1:
		return rpctypes.ErrGRPCInvalidDowngradeTargetVersion
	}
	return nil
}
