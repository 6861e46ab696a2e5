package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// call is a request with a single answer, and the function that sends it.
type call struct {
	method string
	req    proto.Message
	send   func(context.Context, *side) (proto.Message, error)
}

func (c call) String() string { return c.method + " {" + text(c.req) + "}" }

// unary makes a call from a method of a generated client.
func unary[Q, A proto.Message](method string, req Q, f func(*side) func(context.Context, Q, ...grpc.CallOption) (A,
	error),
) call {
	return call{method, req, func(ctx context.Context, s *side) (proto.Message, error) {
		a, err := f(s)(ctx, req)
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}

func rangeCall(r *pb.RangeRequest) call {
	return unary("Range", r,
		func(s *side) func(context.Context, *pb.RangeRequest, ...grpc.CallOption) (*pb.RangeResponse, error) {
			return s.kv.Range
		})
}

func putCall(r *pb.PutRequest) call {
	return unary("Put", r, func(s *side) func(context.Context, *pb.PutRequest, ...grpc.CallOption) (*pb.PutResponse,
		error) {
		return s.kv.Put
	})
}

func deleteCall(r *pb.DeleteRangeRequest) call {
	return unary("DeleteRange", r, func(s *side) func(context.Context, *pb.DeleteRangeRequest,
		...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
		return s.kv.DeleteRange
	})
}

func txnCall(r *pb.TxnRequest) call {
	return unary("Txn", r, func(s *side) func(context.Context, *pb.TxnRequest, ...grpc.CallOption) (*pb.TxnResponse,
		error) {
		return s.kv.Txn
	})
}

func compactCall(r *pb.CompactionRequest) call {
	return unary("Compact", r, func(s *side) func(context.Context, *pb.CompactionRequest,
		...grpc.CallOption) (*pb.CompactionResponse, error) {
		return s.kv.Compact
	})
}

func grantCall(r *pb.LeaseGrantRequest) call {
	return unary("LeaseGrant", r, func(s *side) func(context.Context, *pb.LeaseGrantRequest,
		...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
		return s.lease.LeaseGrant
	})
}

func revokeCall(r *pb.LeaseRevokeRequest) call {
	return unary("LeaseRevoke", r, func(s *side) func(context.Context, *pb.LeaseRevokeRequest,
		...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
		return s.lease.LeaseRevoke
	})
}

func timeToLiveCall(r *pb.LeaseTimeToLiveRequest) call {
	return unary("LeaseTimeToLive", r, func(s *side) func(context.Context, *pb.LeaseTimeToLiveRequest,
		...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
		return s.lease.LeaseTimeToLive
	})
}

func leasesCall() call {
	return unary("LeaseLeases", &pb.LeaseLeasesRequest{}, func(s *side) func(context.Context, *pb.LeaseLeasesRequest,
		...grpc.CallOption) (*pb.LeaseLeasesResponse, error) {
		return s.lease.LeaseLeases
	})
}

func hashKVCall(r *pb.HashKVRequest) call {
	return unary("HashKV", r,
		func(s *side) func(context.Context, *pb.HashKVRequest, ...grpc.CallOption) (*pb.HashKVResponse, error) {
			return s.maint.HashKV
		})
}

// keepAliveCall sends one request over a stream of its own.
func keepAliveCall(r *pb.LeaseKeepAliveRequest) call {
	return call{"LeaseKeepAlive", r, func(ctx context.Context, s *side) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.lease.LeaseKeepAlive(ctx)
		if err != nil {
			return nil, err
		}
		if err := stream.Send(r); err != nil {
			return nil, err
		}
		a, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}

// rangeStreamCall reads the stream to its end. The answer is the chunks combined; a malformed chunk is an error.
func rangeStreamCall(r *pb.RangeRequest) call {
	return call{"RangeStream", r, func(ctx context.Context, s *side) (proto.Message, error) {
		stream, err := s.kv.RangeStream(ctx, r)
		if err != nil {
			return nil, err
		}
		var chunks []*pb.RangeResponse
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return joinChunks(r, chunks)
			}
			if err != nil {
				return nil, err
			}
			chunks = append(chunks, chunk.GetRangeResponse())
		}
	}}
}

func joinChunks(r *pb.RangeRequest, chunks []*pb.RangeResponse) (proto.Message, error) {
	if len(chunks) == 0 {
		return nil, errors.New("stream without a chunk")
	}
	if r.CountOnly && len(chunks) != 1 {
		return nil, fmt.Errorf("%d chunks for a count", len(chunks))
	}
	last := proto.Clone(chunks[len(chunks)-1]).(*pb.RangeResponse)
	var joined pb.RangeResponse
	for i, chunk := range chunks {
		if i < len(chunks)-1 && (chunk.Header != nil || chunk.Count != 0 || chunk.More) {
			return nil, fmt.Errorf("chunk %d of %d carries header, count or more", i, len(chunks))
		}
		joined.Kvs = append(joined.Kvs, chunk.Kvs...)
	}
	last.Kvs = joined.Kvs
	return last, nil
}

// text renders a message on one line, the same for the same message (prototext varies its spaces
// on purpose).
func text(m proto.Message) string {
	if m == nil {
		return "nothing"
	}
	s := prototext.MarshalOptions{}.Format(m)
	return strings.ReplaceAll(s, "  ", " ")
}

// answer is what a server answered: a message or an error.
type answer struct {
	msg proto.Message
	err error
}

func (a answer) String() string {
	if a.err != nil {
		if s, ok := status.FromError(a.err); ok {
			return fmt.Sprintf("error %s %q", s.Code(), s.Message())
		}
		return "error " + a.err.Error()
	}
	return text(a.msg)
}

// ask sends the call and waits for the answer.
func (s *side) ask(ctx context.Context, c call) answer {
	msg, err := c.send(ctx, s)
	return answer{msg, err}
}
