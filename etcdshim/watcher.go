package etcdshim

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// watcher receives the requests of a watch stream.
type watcher struct {
	*watch
	ctx     context.Context
	stream  grpc.ServerStream
	watches *store.WatchStream

	mu      sync.Mutex
	pending []*audit.Entry // of watches that are not answered yet, in their order
}

// receive passes requests on until the client closes its side, which leaves the watches running; then it returns nil.
// While a client does not read the answers, its requests are not read either, and gRPC's flow control stops it.
func (w *watcher) receive() error {
	for {
		if err := w.watches.WaitCapacity(w.ctx); err != nil {
			return err
		}
		var req pb.WatchRequest
		if err := w.stream.RecvMsg(&req); err != nil {
			return unlessEOF(err)
		}
		if err := w.passOn(&req); err != nil {
			return err
		}
	}
}

// readAhead is how many requests a replica reads at once.
const readAhead = 64

// receiveShared is receive for a replica, which asks the database what others have written before it begins a watch:
// once for all requests that have arrived meanwhile.
func (w *watcher) receiveShared() error {
	requests := make(chan *pb.WatchRequest, readAhead)
	ended := make(chan error, 1)
	go func() {
		defer close(requests)
		for {
			req := &pb.WatchRequest{}
			if err := w.stream.RecvMsg(req); err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-w.ctx.Done():
				ended <- w.ctx.Err()
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
			_ = w.watches.CatchUp(w.ctx)
		}
		for _, req := range batch {
			if err := w.watches.WaitCapacity(w.ctx); err != nil {
				return err
			}
			if err := w.passOn(req); err != nil {
				return err
			}
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

func (w *watcher) passOn(req *pb.WatchRequest) error {
	switch r := req.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		if r.CreateRequest != nil {
			return w.create(r.CreateRequest)
		}
	case *pb.WatchRequest_CancelRequest:
		if r.CancelRequest != nil {
			w.watches.Cancel(r.CancelRequest.WatchId)
		}
	case *pb.WatchRequest_ProgressRequest:
		w.watches.RequestProgress()
	}
	return nil
}

// create begins a watch of who calls now: a token may have ended since the stream began.
func (w *watcher) create(r *pb.WatchCreateRequest) error {
	ctx, err := w.callers.identify(w.stream.Context())
	if err != nil {
		return err
	}
	req := watchRequest(r)
	req.As = auth.From(ctx)
	if w.audit.log.Wants(false) {
		e := w.audit.begin(ctx, pb.Watch_Watch_FullMethodName)
		e.User, e.Key, e.End = req.As.User, req.Key, req.End
		w.mu.Lock()
		w.pending = append(w.pending, e)
		w.mu.Unlock()
	}
	w.watches.Watch(req)
	return nil
}

// answered writes to the audit log what became of a request to watch.
func (w *watcher) answered(r *store.WatchResponse) {
	if !r.Created || w.audit.log == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		return
	}
	e := w.pending[0]
	w.pending = w.pending[1:]
	e.Revision = r.Revision
	var err error
	if r.Canceled && r.Err != nil {
		err = statusError(context.Background(), r.Err)
	}
	w.audit.end(e, e.User, err)
}
