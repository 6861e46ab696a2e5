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
	id    int64
	ended bool
	err   error // with which the stream ends
}

// receive receives the requests until the stream ends.
func (k *keepAlives) receive() {
	for {
		r, err := k.stream.Recv()
		next := keepAlive{ended: err != nil, err: err}
		switch {
		case errors.Is(err, io.EOF):
			next.err = nil
		case err == nil:
			next.id = r.ID
		}
		select {
		case k.received <- next:
		case <-k.ctx.Done():
			return
		}
		if k.answering.CompareAndSwap(false, true) {
			go k.answer()
		}
		if next.ended {
			return
		}
	}
}

// answer answers what was received until nothing is left, or ends the stream.
func (k *keepAlives) answer() {
	for {
		ids, ended, err := k.next()
		if len(ids) > 0 {
			if err := k.renew(ids); err != nil {
				k.end <- err
				return
			}
		}
		if ended {
			k.end <- err
			return
		}
		if len(ids) == 0 {
			k.answering.Store(false)
			if len(k.received) == 0 || !k.answering.CompareAndSwap(false, true) {
				return
			}
		}
	}
}

// next returns the requests that were received so far, and whether, and with which error, the stream ends after them.
func (k *keepAlives) next() (ids []int64, ended bool, err error) {
	for len(ids) < keepAlivesAtOnce {
		select {
		case next := <-k.received:
			if next.ended {
				return ids, true, next.err
			}
			ids = append(ids, next.id)
		default:
			return ids, false, nil
		}
	}
	return ids, false, nil
}

// renew renews leases and sends the answers.
func (k *keepAlives) renew(ids []int64) error {
	ctx, err := k.s.callers.identify(k.ctx) // the token may have ended since the last request
	if err != nil {
		return err
	}
	failed := false
	return k.s.engine.LeaseRenewAll(ctx, ids, func(i int, r store.Renewal) error {
		err := r.Err
		if errors.Is(err, store.ErrLeaseNotFound) {
			r.TTL, err = 0, nil
		}
		k.s.renewed(ctx, ids[i], err)
		switch {
		case failed: // it is not answered
		case err != nil:
			err = statusError(ctx, err)
		default:
			err = k.stream.Send(&pb.LeaseKeepAliveResponse{Header: k.s.id.header(r.Revision), ID: ids[i], TTL: r.TTL})
		}
		failed = failed || err != nil
		return err
	})
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
