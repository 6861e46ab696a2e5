package etcdshim

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/store"
)

// kv serves etcdserverpb.KV with its own message types, see codec.
type kv struct {
	engine        *store.Store
	id            *identities
	maxBytes      int
	most          int           // maximum operations of a transaction
	streamTimeout time.Duration // with a client that reads nothing of a stream
	awaited       *answers      // of the gateway
}

func (s *kv) read(ctx context.Context, r *rangeRequest) (any, error) {
	if err := checkRange(&r.RangeRequest); err != nil {
		return nil, err
	}
	r.KeepPermit, r.Copies = true, s.copies(ctx)
	res, err := s.engine.Range(ctx, &r.RangeRequest)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	r.reply = rangeReply{s.id.now(), res}
	return s.admitted(ctx, res.Permit, &r.reply)
}

// permitReply is the size from which encoding a reply needs a permit, however few rows it has.
const permitReply = 64 << 10

// copies returns how many times the memory of its values the reply to a call needs: more if the gateway encodes it
// again.
func (s *kv) copies(ctx context.Context) int64 {
	if s.awaited.of(ctx) != nil {
		return answerFactor
	}
	return 1
}

// admitted encodes the reply to a long read under the read's permit, and a large one under its own. What then waits for
// the client counts until it is sent, or the gateway's client has it. Other replies are encoded when they are sent.
func (s *kv) admitted(ctx context.Context, permit *store.Permit, r reply) (any, error) {
	if permit == nil {
		if r.size() < permitReply {
			return r, nil
		}
		var err error
		if permit, err = s.engine.AcquirePermit(ctx, s.copies(ctx)*int64(r.size())); err != nil {
			return nil, statusError(ctx, err)
		}
	}
	defer permit.End()
	data, err := encode(r)
	if err != nil {
		return nil, err
	}
	if t := s.awaited.of(ctx); t != nil {
		t.charge(permit.Charge(ctx, answerFactor*int64(data.Len())))
		return encoded{data}, nil
	}
	return encoded{countSent(data, permit.Charge(ctx, int64(data.Len())))}, nil
}

func (s *kv) put(ctx context.Context, r *putRequest) (any, error) {
	if err := checkPut(&r.PutRequest); err != nil {
		return nil, err
	}
	if err := fits(r.wire, s.maxBytes); err != nil {
		return nil, err
	}
	own(&r.PutRequest, r.wire)
	res, err := s.engine.Put(ctx, &r.PutRequest)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	r.reply = putReply{s.id.now(), res}
	return &r.reply, nil
}

func (s *kv) delete(ctx context.Context, r *deleteRequest) (any, error) {
	if err := checkDelete(&r.DeleteRequest); err != nil {
		return nil, err
	}
	if err := fits(r.wire, s.maxBytes); err != nil {
		return nil, err
	}
	res, err := s.engine.Delete(ctx, &r.DeleteRequest)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	r.reply = deleteReply{s.id.now(), res}
	return &r.reply, nil
}

func (s *kv) txn(ctx context.Context, r *txnRequest) (any, error) {
	t := &r.decoded
	if err := checkTxn(t, s.most); err != nil {
		return nil, err
	}
	if writes(t) {
		if err := fits(r.wire, s.maxBytes); err != nil {
			return nil, err
		}
		ownAll(t, r.wire)
	}
	if empty(t) { // there is no key whose rights the engine could check
		if err := ended(ctx, s.engine); err != nil {
			return nil, err
		}
	}
	t.KeepPermit, t.Copies = true, s.copies(ctx)
	res, err := s.engine.Txn(ctx, t)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	r.reply = txnReply{s.id.now(), res}
	return s.admitted(ctx, res.Permit, &r.reply)
}

// empty reports whether a transaction names no keys.
func empty(t *store.Txn) bool {
	if len(t.Compare) > 0 {
		return false
	}
	for _, ops := range [2][]store.Op{t.Success, t.Failure} {
		for i := range ops {
			if ops[i].Txn == nil || !empty(ops[i].Txn) {
				return false
			}
		}
	}
	return true
}

// writes reports whether any branch could write.
func writes(t *store.Txn) bool {
	for _, ops := range [2][]store.Op{t.Success, t.Failure} {
		for i := range ops {
			if op := &ops[i]; op.Put != nil || op.Delete != nil || op.Txn != nil && writes(op.Txn) {
				return true
			}
		}
	}
	return false
}

func (s *kv) compact(ctx context.Context, r *pb.CompactionRequest) (any, error) {
	rev, err := s.engine.Compact(ctx, r.Revision, r.Physical)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.CompactionResponse{Header: s.id.header(rev)}, nil
}

// rangeStream sends the last chunk after the engine has finished, because it carries the header.
func (s *kv) rangeStream(r *rangeRequest, stream grpc.ServerStream) error {
	if err := checkRangeStream(&r.RangeRequest); err != nil {
		return err
	}
	ctx := stream.Context()
	var held []*store.Row
	res, err := s.engine.RangeStream(ctx, &r.RangeRequest, func(rows []*store.Row, last bool) error {
		if last {
			held = rows
			return nil
		}
		return s.sendChunk(stream, &chunkReply{rangeReply{res: &store.RangeResult{Rows: rows}}})
	})
	if err != nil {
		return statusError(ctx, err)
	}
	last := *res
	last.Rows = held
	r.reply.res = res
	return s.sendChunk(stream, &chunkReply{rangeReply{s.id.now(), &last}})
}

// sendChunk sends a chunk, for which the engine has waited until there was memory. It counts until it is sent: each of
// many streams that nobody reads would hold some.
func (s *kv) sendChunk(stream grpc.ServerStream, r *chunkReply) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	account := s.engine.Charge(stream.Context(), int64(replies.size(r.size())))
	return stream.SendMsg(encoded{countSent(data, account)})
}

// unary describes a method whose request is a *T. handle gets the service.
func unary[T any](name string, handle func(s *kv, ctx context.Context, req *T) (any, error)) grpc.MethodDesc {
	method := "/" + pb.KV_ServiceDesc.ServiceName + "/" + name
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error,
		around grpc.UnaryServerInterceptor,
	) (any, error) {
		if err := ctx.Err(); err != nil {
			return nil, statusError(ctx, err)
		}
		req := new(T)
		if err := decode(req); err != nil {
			return nil, err
		}
		if around == nil {
			return handle(srv.(*kv), ctx, req)
		}
		return around(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: method},
			func(ctx context.Context, req any) (any, error) {
				return handle(srv.(*kv), ctx, req.(*T))
			})
	}}
}

// kvService describes etcdserverpb.KV with this package's messages.
var kvService = grpc.ServiceDesc{
	ServiceName: pb.KV_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Metadata:    pb.KV_ServiceDesc.Metadata,
	Methods: []grpc.MethodDesc{
		unary("Range", (*kv).read),
		unary("Put", (*kv).put),
		unary("DeleteRange", (*kv).delete),
		unary("Txn", (*kv).txn),
		unary("Compact", (*kv).compact),
	},
	Streams: []grpc.StreamDesc{{
		StreamName:    "RangeStream",
		ServerStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error {
			r := new(rangeRequest)
			if err := stream.RecvMsg(r); err != nil {
				return err
			}
			s := srv.(*kv)
			return attend(stream, s.streamTimeout,
				func(stream grpc.ServerStream) error { return s.rangeStream(r, stream) })
		},
	}},
}
