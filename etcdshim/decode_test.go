package etcdshim

import (
	"math/rand/v2"
	"reflect"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/store"
)

// sameDecoding decodes raw as each request with both decoders, and fails unless both fail or return the same.
func sameDecoding(t *testing.T, raw []byte) {
	t.Helper()
	var (
		c   = newCodec()
		rng rangeRequest
		put putRequest
		del deleteRequest
		txn txnRequest
		pr  pb.RangeRequest
		pp  pb.PutRequest
		pd  pb.DeleteRangeRequest
		pt  pb.TxnRequest
	)
	for _, both := range []struct {
		got    request
		want   proto.Message
		values func() (got, want any)
	}{
		{&rng, &pr, func() (any, any) { return &rng.RangeRequest, protoRange(&pr) }},
		{&put, &pp, func() (any, any) { return &put.PutRequest, protoPut(&pp) }},
		{&del, &pd, func() (any, any) { return &del.DeleteRequest, protoDelete(&pd) }},
		{&txn, &pt, func() (any, any) { return &txn.decoded, protoTxn(&pt) }},
	} {
		err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, both.got)
		want := proto.Unmarshal(raw, both.want)
		if (err == nil) != (want == nil) {
			t.Fatalf("%T %x\ngot  %v\nwant %v", both.want, raw, err, want)
		}
		if err != nil {
			continue
		}
		if got, want := both.values(); !same(reflect.ValueOf(got), reflect.ValueOf(want)) {
			t.Fatalf("%T %x\ngot  %+v\nwant %+v", both.want, raw, got, want)
		}
	}
}

// same is reflect.DeepEqual, but nil and empty slices are equal.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// message makes bytes that look like a protobuf message: fields of likely and unlikely numbers and types, in any order
// and any number, nested, and sometimes truncated.
func (r random) message(depth int) []byte {
	var b []byte
	for range r.IntN(5) {
		num := protowire.Number(1 + r.IntN(9))
		switch r.IntN(20) {
		case 0:
			num = 64
		case 1:
			num = protowire.Number(r.Uint32N(1 << 29))
		}
		typ := []protowire.Type{protowire.VarintType, protowire.BytesType}[r.IntN(2)]
		if depth > 0 && r.IntN(3) > 0 {
			typ = protowire.BytesType
		}
		if r.IntN(20) == 0 {
			typ = protowire.Type(r.IntN(8))
		}
		b = protowire.AppendVarint(b, uint64(num)<<3|uint64(typ))
		switch typ {
		case protowire.VarintType:
			b = protowire.AppendVarint(b, uint64(r.number()))
		case protowire.BytesType:
			var v []byte
			if depth > 0 {
				v = r.message(depth - 1)
			} else if r.flag() {
				v = []byte("some bytes")
			}
			b = protowire.AppendBytes(b, v)
		case protowire.Fixed32Type:
			b = protowire.AppendFixed32(b, r.Uint32())
		case protowire.Fixed64Type:
			b = protowire.AppendFixed64(b, r.Uint64())
		case protowire.StartGroupType:
			b = append(b, r.message(0)...)
			b = protowire.AppendTag(b, num, protowire.EndGroupType)
		}
	}
	if r.IntN(30) == 0 {
		b = b[:r.IntN(len(b)+1)]
	}
	return b
}

func TestRequestsAreWhatProtobufReads(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range 5000 {
		sameDecoding(t, r.message(5))
	}
}

func FuzzRequestsAreWhatProtobufReads(f *testing.F) {
	r := random{rand.New(rand.NewPCG(5, 6))}
	for range 50 {
		f.Add(r.message(4))
	}
	f.Fuzz(sameDecoding)
}

// Protobuf refuses messages nested deeper than 10,000 levels. So must the decoder, at the same depth, without a stack
// overflow.
func TestDeepNesting(t *testing.T) {
	nested := []byte{}
	for depth := 1; depth <= 5002; depth++ {
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nested)
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nested)
		if depth >= 4998 {
			var txn txnRequest
			var want pb.TxnRequest
			if got, want := txn.decode(nested), proto.Unmarshal(nested, &want); (got == nil) != (want == nil) {
				t.Errorf("depth %d: %v, want %v", depth, got, want)
			}
		}
	}
}

// A put must not keep a much larger request alive, and must keep the parts that it needs.
func TestPutOwnsItsBytes(t *testing.T) {
	request := make([]byte, 10_000)
	copy(request, "keyvalue")
	p := &store.PutRequest{Key: request[:3], Value: request[3:8]}
	own(p, len(request))
	clear(request)
	if string(p.Key) != "key" || string(p.Value) != "value" {
		t.Errorf("put %q = %q after its request is gone", p.Key, p.Value)
	}
	if p := (&store.PutRequest{Key: []byte("k")}); true {
		own(p, 3)
		if p.Value == nil {
			t.Error("an empty value is nil, as that of a tombstone")
		}
	}
}
