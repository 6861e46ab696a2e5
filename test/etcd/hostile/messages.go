package hostile

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

func messageAbuses() []abuse {
	return []abuse{
		{name: "mutated messages on every method", short: 6_000, full: 300_000, keeps: 32 << 20, attack: mutated},
	}
}

// method is one RPC with the type of its requests.
type method struct {
	name  string
	input protoreflect.MessageType
}

// everyMethod returns all RPCs of etcd's services.
func everyMethod() ([]method, error) {
	var list []method
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_rpc_proto, v3lockpb.File_v3lock_proto, v3electionpb.File_v3election_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				input, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					return nil, err
				}
				list = append(list, method{fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), input})
			}
		}
	}
	return list, nil
}

// mutated sends random requests to every method, half of them with changed bytes.
func mutated(ctx context.Context, t *target, n int) (int, error) {
	methods, err := everyMethod()
	if err != nil {
		return 0, err
	}
	return spread(n, connections, func(c, n int) (int, error) {
		r := rand.New(rand.NewPCG(seed(), uint64(c)))
		conn, err := t.grpc()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		for i := range n {
			m := methods[r.IntN(len(methods))]
			raw := mustMarshal(randomMessage(r, m.input, 4))
			if r.IntN(2) == 0 {
				raw = mutate(r, raw)
			}
			if changesTheCluster(m, raw) {
				continue
			}
			if err := sendBriefly(ctx, conn, m.name, raw); err != nil && !refused(err) {
				return i, fmt.Errorf("%s of %x: %w", m.name, raw, err)
			}
		}
		return n, nil
	})
}

// changesTheCluster reports whether a request, if valid, legitimately stops the service to others: with an alarm the
// server refuses writes, and with more members than servers it refuses everything.
func changesTheCluster(m method, raw []byte) bool {
	request := m.input.New().Interface()
	if proto.Unmarshal(raw, request) != nil {
		return false
	}
	switch r := request.(type) {
	case *pb.AlarmRequest:
		return r.Action == pb.AlarmRequest_ACTIVATE
	case *pb.MemberAddRequest, *pb.MemberRemoveRequest, *pb.MemberUpdateRequest, *pb.AuthEnableRequest:
		return true
	}
	return false
}

// sendBriefly sends a message and waits a little for the first answer: many methods wait for more messages, or forever.
func sendBriefly(ctx context.Context, conn *grpc.ClientConn, method string, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(raw); err != nil {
		return err
	}
	_ = stream.CloseSend() // never fails
	var answer []byte
	return stream.RecvMsg(&answer)
}

// randomMessage fills some of a message's fields with values that are likely to matter.
func randomMessage(r *rand.Rand, of protoreflect.MessageType, depth int) proto.Message {
	m := of.New()
	fields := of.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(3) == 0 {
			continue
		}
		switch {
		case f.IsMap():
		case f.IsList():
			for range r.IntN(4) {
				if f.Message() == nil {
					m.Mutable(f).List().Append(randomScalar(r, f))
				} else if v, ok := randomField(r, m.NewField(f).List().NewElement(), depth); ok {
					m.Mutable(f).List().Append(v)
				}
			}
		case f.Message() == nil:
			m.Set(f, randomScalar(r, f))
		default:
			if v, ok := randomField(r, m.NewField(f), depth); ok {
				m.Set(f, v)
			}
		}
	}
	return m.Interface()
}

// randomField is a message inside another one, down to a certain depth.
func randomField(r *rand.Rand, empty protoreflect.Value, depth int) (protoreflect.Value, bool) {
	if depth == 0 {
		return empty, r.IntN(2) == 0
	}
	return protoreflect.ValueOfMessage(randomMessage(r, empty.Message().Type(), depth-1).ProtoReflect()), true
}

var (
	someNumbers = []int64{
		0, 1, 2, 3, 100, -1, -2, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
		math.MaxInt64 - 1,
	}
	someBytes = []string{
		"", "\x00", "a", "b", "object/", "object0", "object/00000001", "probe", "\xff\xff", "a\x00b",
		"http://127.0.0.1:1", "3.6", "root",
	}
)

func randomScalar(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	n := someNumbers[r.IntN(len(someNumbers))]
	s := someBytes[r.IntN(len(someBytes))]
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		if r.IntN(8) == 0 {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(n)))
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(f.Enum().Values().Len())))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(s))
	case protoreflect.StringKind:
		if r.IntN(100) == 0 {
			return protoreflect.ValueOfString("")
		}
		return protoreflect.ValueOfString("name" + fmt.Sprint(r.IntN(5)))
	}
	return f.Default()
}

// mutate changes a message's bytes: bits, lengths, pieces.
func mutate(r *rand.Rand, raw []byte) []byte {
	for range 1 + r.IntN(4) {
		if len(raw) == 0 {
			return garbage(r)
		}
		at := r.IntN(len(raw))
		switch r.IntN(5) {
		case 0:
			raw[at] ^= 1 << r.IntN(8)
		case 1:
			raw[at] = byte(r.Uint32())
		case 2:
			raw = raw[:at]
		case 3:
			raw = append(raw, raw[at:]...)
		case 4:
			raw = append(raw[:at], raw[min(len(raw), at+1+r.IntN(4)):]...)
		}
	}
	return raw
}
