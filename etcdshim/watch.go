package etcdshim

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// watch serves etcdserverpb.Watch. A stream's handler sends; another goroutine receives.
type watch struct {
	engine   *store.Store
	id       *identities
	maxBytes int // a larger response is sent in fragments if the watch asked for that
	stopping context.Context
	sent     func(kind WatchSend, events int, took time.Duration) // or nil
	callers  *callers
	audit    auditor
}

func (s *watch) serve(stream grpc.ServerStream) error {
	watches := s.engine.NewWatchStream()
	defer watches.Close()
	ctx, cancel := untilStop(stream.Context(), s.stopping)
	defer cancel(nil)
	w := &watcher{watch: s, ctx: ctx, stream: stream, watches: watches}
	receive := w.receive
	if s.engine.Members() != nil {
		receive = w.receiveShared
	}
	go func() {
		if err := receive(); err != nil {
			cancel(err)
		}
	}()
	for {
		r, err := watches.Next(ctx)
		if err != nil {
			return watchError(ctx, err)
		}
		w.answered(r)
		if err := s.timedSend(stream, r); err != nil {
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
	for _, refused := range []error{
		auth.ErrInvalidToken, auth.ErrOldRevision, auth.ErrUserEmpty, auth.ErrPermissionDenied,
	} {
		if errors.Is(err, refused) {
			return statusError(context.Background(), refused).Error() // with its code, as in etcd
		}
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
