package storage

import (
	"context"
	"math"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// directory makes a part of a server look like a whole one. It sits below the etcd client, in gRPC's interceptors, and
// rewrites every message: keys get a prefix, and revisions are counted from base, so that the tests and Kubernetes'
// code run on a stock client, including RangeStream. (The wrappers of clientv3/namespace support neither revisions nor
// RangeStream.)
type directory struct {
	// prefix stands before every key on the server. It must not end in 0xff.
	prefix string
	// base is the server's revision that the client sees as 0.
	base int64
}

// passed are the methods whose messages contain no keys and no revisions that a test checks.
var passed = map[string]bool{
	"/etcdserverpb.Lease/LeaseGrant":     true,
	"/etcdserverpb.Lease/LeaseRevoke":    true,
	"/etcdserverpb.Lease/LeaseKeepAlive": true,
	"/etcdserverpb.Maintenance/Status":   true,
}

// translated are the methods whose messages are rewritten.
func translated(method string) bool {
	return strings.HasPrefix(method, "/etcdserverpb.KV/") || method == "/etcdserverpb.Watch/Watch"
}

// unary and stream refuse whatever is neither passed nor translated: an unnoticed request would reach other tests'
// keys.
func (d directory) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	switch {
	case passed[method]:
		return invoke(ctx, method, req, reply, conn, opts...)
	case !translated(method):
		return status.Errorf(codes.Internal, "a directory does not translate %s", method)
	}
	if err := invoke(ctx, method, d.request(req), reply, conn, opts...); err != nil {
		return err
	}
	d.fromServer(reply.(proto.Message).ProtoReflect())
	return nil
}

func (d directory) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if !passed[method] && !translated(method) {
		return nil, status.Errorf(codes.Internal, "a directory does not translate %s", method)
	}
	stream, err := open(ctx, desc, conn, method, opts...)
	if err != nil || passed[method] {
		return stream, err
	}
	return &directoryStream{ClientStream: stream, directory: d}, nil
}

type directoryStream struct {
	grpc.ClientStream
	directory directory
}

func (s *directoryStream) SendMsg(m any) error {
	return s.ClientStream.SendMsg(s.directory.request(m))
}

func (s *directoryStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	s.directory.fromServer(m.(proto.Message).ProtoReflect())
	return nil
}

// request returns a rewritten copy: the client keeps the original and may send it again.
func (d directory) request(m any) proto.Message {
	clone := proto.Clone(m.(proto.Message))
	d.toServer(clone.ProtoReflect())
	return clone
}

func (d directory) toServer(m protoreflect.Message) {
	rewrite(m, func(name protoreflect.Name, value protoreflect.Value) protoreflect.Value {
		switch {
		case name == "key":
			return protoreflect.ValueOfBytes(append([]byte(d.prefix), value.Bytes()...))
		case name == "range_end":
			return protoreflect.ValueOfBytes(d.rangeEnd(value.Bytes()))
		case isRevision(name) && value.Int() > 0 && value.Int() <= math.MaxInt64-d.base:
			return protoreflect.ValueOfInt64(value.Int() + d.base)
		}
		return value
	})
}

func (d directory) fromServer(m protoreflect.Message) {
	rewrite(m, func(name protoreflect.Name, value protoreflect.Value) protoreflect.Value {
		switch {
		case name == "key":
			return protoreflect.ValueOfBytes(value.Bytes()[len(d.prefix):])
		case isRevision(name) && value.Int() > 0:
			return protoreflect.ValueOfInt64(value.Int() - d.base)
		}
		return value
	})
}

// rangeEnd keeps a range inside the directory: "\x00" means up to the end of all keys.
func (d directory) rangeEnd(end []byte) []byte {
	if len(end) == 1 && end[0] == 0 && d.prefix != "" {
		return []byte(clientv3.GetPrefixRangeEnd(d.prefix))
	}
	return append([]byte(d.prefix), end...)
}

// isRevision reports whether a field of etcd's API is a revision: revision, mod_revision, start_revision,
// compact_revision and so on. 0 and negative values have special meanings.
func isRevision(name protoreflect.Name) bool {
	return name == "revision" || strings.HasSuffix(string(name), "_revision")
}

// rewrite replaces the scalar fields that are set in m and in the messages inside it.
func rewrite(m protoreflect.Message, replace func(protoreflect.Name, protoreflect.Value) protoreflect.Value) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		isMessage := field.Kind() == protoreflect.MessageKind
		switch {
		case field.IsList() && isMessage:
			for i := range value.List().Len() {
				rewrite(value.List().Get(i).Message(), replace)
			}
		case field.IsList() || field.IsMap():
		case isMessage:
			rewrite(value.Message(), replace)
		case field.Kind() == protoreflect.BytesKind || field.Kind() == protoreflect.Int64Kind:
			m.Set(field, replace(field.Name(), value))
		}
		return true
	})
}
