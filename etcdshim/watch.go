package etcdshim

import (
	"context"
	"errors"
	"io"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// watch serves etcdserverpb.Watch. A stream's handler sends; another goroutine receives.
type watch struct {
	engine   *store.Store
	id       *identities
	maxBytes int // a larger response is sent in fragments if the watch asked for that
	stopping context.Context
}

func (s *watch) serve(stream grpc.ServerStream) error {
	watches := s.engine.NewWatchStream()
	defer watches.Close()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(rpctypes.ErrGRPCStopped) })()
	receive := receiveWatches
	if s.engine.Members() != nil {
		receive = receiveShared
	}
	go func() {
		if err := receive(ctx, stream, watches); err != nil {
			cancel(err)
		}
	}()
	for {
		r, err := watches.Next(ctx)
		if err != nil {
			return watchError(ctx, err)
		}
		if err := s.send(stream, r); err != nil {
			return watchError(ctx, err)
		}
	}
}

// watchError returns why a stream ended: an error of receiving takes precedence over its consequences.
func watchError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return rpctypes.ErrGRPCWatchCanceled
	}
	return statusError(ctx, err)
}

// receiveWatches passes requests on until the client closes its side, which leaves the watches running; then it returns
// nil. While a client does not read the answers, its requests are not read either, and gRPC's flow control stops it.
func receiveWatches(ctx context.Context, stream grpc.ServerStream, watches *store.WatchStream) error {
	for {
		if err := watches.Room(ctx); err != nil {
			return err
		}
		var req pb.WatchRequest
		if err := stream.RecvMsg(&req); err != nil {
			return unlessEOF(err)
		}
		passOn(watches, &req)
	}
}

// readAhead is how many requests a replica takes at once.
const readAhead = 64

// receiveShared is receiveWatches for a replica, which asks the database what others have written before it begins a
// watch: once for all requests that have arrived meanwhile.
func receiveShared(ctx context.Context, stream grpc.ServerStream, watches *store.WatchStream) error {
	requests := make(chan *pb.WatchRequest, readAhead)
	ended := make(chan error, 1)
	go func() {
		defer close(requests)
		for {
			req := &pb.WatchRequest{}
			if err := stream.RecvMsg(req); err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
		}
	}()
	for req := range requests {
		batch := []*pb.WatchRequest{req}
		for range min(len(requests), readAhead) {
			batch = append(batch, <-requests)
		}
		if slices.ContainsFunc(batch, func(r *pb.WatchRequest) bool { return r.GetCreateRequest() != nil }) {
			// While its database is unreachable, a replica watches from what it knows, like an etcd member that is cut
			// off.
			_ = watches.CatchUp(ctx)
		}
		for _, req := range batch {
			if err := watches.Room(ctx); err != nil {
				return err
			}
			passOn(watches, req)
		}
	}
	return unlessEOF(<-ended)
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func passOn(watches *store.WatchStream, req *pb.WatchRequest) {
	switch r := req.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		if r.CreateRequest != nil {
			watches.Watch(watchRequest(r.CreateRequest))
		}
	case *pb.WatchRequest_CancelRequest:
		if r.CancelRequest != nil {
			watches.Cancel(r.CancelRequest.WatchId)
		}
	case *pb.WatchRequest_ProgressRequest:
		watches.RequestProgress()
	}
}

func watchRequest(r *pb.WatchCreateRequest) store.WatchRequest {
	w := store.WatchRequest{
		ID: r.WatchId, Key: r.Key, End: r.RangeEnd, StartRevision: r.StartRevision,
		PrevKV: r.PrevKv, ProgressNotify: r.ProgressNotify, Fragment: r.Fragment,
	}
	if len(w.Key) == 0 {
		w.Key = []byte{0} // the smallest key
	}
	for _, f := range r.Filters {
		switch f {
		case pb.WatchCreateRequest_NOPUT:
			w.NoPut = true
		case pb.WatchCreateRequest_NODELETE:
			w.NoDelete = true
		}
	}
	return w
}

func (s *watch) send(stream grpc.ServerStream, r *store.WatchResponse) error {
	w := watchReply{
		id: s.id.now(), watch: r.ID, revision: r.Revision, events: r.Events,
		created: r.Created, canceled: r.Canceled, compact: r.CompactRevision, reason: cancelReason(r.Err),
	}
	if !r.Fragment || len(w.events) < 2 || w.size() < s.maxBytes {
		return stream.SendMsg(&w)
	}
	return fragments(w, s.maxBytes, func(part *watchReply) error { return stream.SendMsg(part) })
}

// fragments splits a response into parts smaller than limit, if single events allow it; all but the last say that more
// follows.
func fragments(w watchReply, limit int, send func(*watchReply) error) error {
	events := w.events
	w.fragment = true
	base := w.sizeWithoutEvents()
	for len(events) > 0 {
		n, size := 0, base
		for n < len(events) {
			size += sizeMessage(sizeEvent(&events[n]))
			if n > 0 && size >= limit {
				break
			}
			n++
		}
		w.events, events = events[:n], events[n:]
		w.fragment = len(events) > 0
		if err := send(&w); err != nil {
			return err
		}
	}
	return nil
}

// cancelReason is etcd's text for refusing a watch.
func cancelReason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrWatchEmptyRange):
		return "mvcc: watcher range is empty"
	case errors.Is(err, store.ErrWatchDuplicateID):
		return "mvcc: duplicate watch ID provided on the WatchStream"
	case errors.Is(err, store.ErrCompacted):
		return rpctypes.ErrorDesc(rpctypes.ErrGRPCCompacted)
	case errors.Is(err, backend.ErrCorrupt):
		return rpctypes.ErrorDesc(rpctypes.ErrGRPCCorrupt)
	}
	return err.Error()
}

var watchService = grpc.ServiceDesc{
	ServiceName: pb.Watch_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    pb.Watch_ServiceDesc.Metadata,
	Streams: []grpc.StreamDesc{{
		StreamName:    "Watch",
		ServerStreams: true,
		ClientStreams: true,
		Handler:       func(srv any, stream grpc.ServerStream) error { return srv.(*watch).serve(stream) },
	}},
}
