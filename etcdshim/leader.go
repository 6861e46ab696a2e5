package etcdshim

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	// requestTimeout is how long a request may wait for a database shared by several servers, as long as for a leader
	// in etcd.
	requestTimeout = 7 * time.Second
	// haste is how long before the client's own deadline it gets "request timed out", which says more than "deadline
	// exceeded", and makes it try another replica.
	haste = 100 * time.Millisecond
)

// leadership keeps etcd's promises to requests while it has no leader: here, while the database is unreachable.
//
//   - Calls with etcd's metadata `hasleader: true` are refused, and their streams end as soon as it is noticed.
//   - Requests that need the database end with etcd's "request timed out", within the client's deadline.
//
// It costs nothing if the database cannot become unreachable.
type leadership struct {
	// none returns a channel that is closed while there is no leader, or nil if there always is one.
	none func() <-chan struct{}
}

// require returns etcd's error if ctx requires a leader and there is none.
func require(ctx context.Context, none <-chan struct{}) error {
	select {
	case <-none:
		if requiresLeader(ctx) {
			return rpctypes.ErrGRPCNoLeader
		}
	default:
	}
	return nil
}

func requiresLeader(ctx context.Context) bool {
	v := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// within bounds the time of a request. cancel is nil if there is nothing to cancel.
func (l *leadership) within(ctx context.Context, method string, req any) (
	bounded context.Context, cancel context.CancelFunc, err error,
) {
	none := l.none()
	if none == nil {
		return ctx, nil, nil
	}
	if err := require(ctx, none); err != nil {
		return nil, nil, err
	}
	limit, limited := limitOf(method, req)
	deadline, ok := ctx.Deadline()
	switch left := time.Until(deadline); {
	case !limited || !ok && limit == forever:
		return ctx, nil, nil
	case ok:
		limit = min(limit, max(left-haste, left/2))
	}
	ctx, cancel = context.WithTimeoutCause(ctx, limit, rpctypes.ErrGRPCTimeout)
	return ctx, cancel, nil
}

const forever time.Duration = 1<<63 - 1

// limitOf returns how long a request that needs the database may take. Only its client knows how long a list may take.
func limitOf(method string, req any) (limit time.Duration, bounded bool) {
	switch method {
	case "/etcdserverpb.KV/Range":
		r, _ := req.(*rangeRequest)
		return forever, r != nil && !r.Serializable
	case "/etcdserverpb.KV/Put", "/etcdserverpb.KV/DeleteRange", "/etcdserverpb.KV/Txn",
		"/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke",
		"/etcdserverpb.Lease/LeaseTimeToLive", "/etcdserverpb.Lease/LeaseLeases",
		"/etcdserverpb.Maintenance/Status":
		return requestTimeout, true
	}
	return 0, false
}

func (l *leadership) stream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	none := l.none()
	if none == nil || !requiresLeader(stream.Context()) {
		return handle(srv, stream)
	}
	if err := require(stream.Context(), none); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-none:
			cancel(rpctypes.ErrGRPCNoLeader)
		case <-ctx.Done():
		}
	}()
	return handle(srv, &streamWith{stream, ctx})
}

// streamWith is a stream with another context.
type streamWith struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWith) Context() context.Context { return s.ctx }
