package etcdshim

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// keepAlivesAtOnce is how many requests of a stream are served at the same time. A client sends those of all its leases
// on one stream, and each may wait for the database.
const keepAlivesAtOnce = 128

func (s *lease) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	k := keepAlives{
		s: s, stream: stream, ctx: ctx, received: make(chan keepAlive, keepAlivesAtOnce), end: make(chan error, 1),
	}
	go k.receive()
	select {
	case err := <-k.end:
		return err
	case <-ctx.Done():
		return statusError(ctx, ctx.Err())
	case <-s.stopping.Done():
		return rpctypes.ErrGRPCStopped
	}
}

// keepAlives serves the requests of a stream. It answers them in their order.
type keepAlives struct {
	s         *lease
	stream    pb.Lease_LeaseKeepAliveServer
	ctx       context.Context
	received  chan keepAlive // and not answered
	answering atomic.Bool    // a goroutine runs answer
	end       chan error     // of the stream
}

// keepAlive is a request, or the end of the stream.
type keepAlive struct {
	resp *pb.LeaseKeepAliveResponse // the answer, as far as it is known; nil at the end
	err  error                      // with which the stream ends
}

// receive receives the requests until the stream ends.
func (k *keepAlives) receive() {
	for {
		r, err := k.stream.Recv()
		next := keepAlive{err: err}
		switch {
		case errors.Is(err, io.EOF):
			next.err = nil
		case err == nil:
			// The header comes first: a client that sees a renewal at a revision may rely on the lease at that
			// revision.
			next.resp = &pb.LeaseKeepAliveResponse{Header: k.s.header(), ID: r.ID}
		}
		select {
		case k.received <- next:
		case <-k.ctx.Done():
			return
		}
		if k.answering.CompareAndSwap(false, true) {
			go k.answer()
		}
		if next.resp == nil {
			return
		}
	}
}

// answer answers what was received until nothing is left, or ends the stream.
func (k *keepAlives) answer() {
	for {
		group, ended, err := k.next()
		if len(group) > 0 {
			if err := k.renew(group); err != nil {
				k.end <- err
				return
			}
		}
		if ended {
			k.end <- err
			return
		}
		if len(group) == 0 {
			k.answering.Store(false)
			if len(k.received) == 0 || !k.answering.CompareAndSwap(false, true) {
				return
			}
		}
	}
}

// next returns the requests that were received so far, and whether, and with which error, the stream ends after them.
func (k *keepAlives) next() (group []*pb.LeaseKeepAliveResponse, ended bool, err error) {
	for len(group) < keepAlivesAtOnce {
		select {
		case next := <-k.received:
			if next.resp == nil {
				return group, true, next.err
			}
			group = append(group, next.resp)
		default:
			return group, false, nil
		}
	}
	return group, false, nil
}

// renew renews leases and sends the answers.
func (k *keepAlives) renew(group []*pb.LeaseKeepAliveResponse) error {
	ctx, err := k.s.callers.identify(k.ctx) // the token may have ended since the last request
	if err != nil {
		return err
	}
	ids := make([]int64, len(group))
	for i, resp := range group {
		ids[i] = resp.ID
	}
	for i, renewal := range k.s.engine.LeaseRenewAll(ctx, ids) {
		resp, err := group[i], renewal.Err
		if resp.TTL = renewal.TTL; errors.Is(err, store.ErrLeaseNotFound) {
			resp.TTL, err = 0, nil
		}
		k.s.renewed(ctx, resp.ID, err)
		if err != nil {
			return statusError(ctx, err)
		}
		if err := k.stream.Send(resp); err != nil {
			return err
		}
	}
	return nil
}

// renewed writes a keep-alive to the audit log.
func (s *lease) renewed(ctx context.Context, id int64, err error) {
	if !s.audit.log.Wants(false) {
		return
	}
	e := s.audit.begin(ctx, pb.Lease_LeaseKeepAlive_FullMethodName)
	e.Details = leaseOf(id)
	s.audit.end(e, auth.From(ctx).User, statusError(ctx, err))
}
