package hostile

import (
	"math/rand/v2"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// rawCodec passes bytes through as a message.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = rawCodec{}

// garbage returns random bytes, which are almost certainly not valid protobuf.
func garbage(r *rand.Rand) []byte {
	raw := make([]byte, r.IntN(200))
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	return raw
}

// nested returns a marshalled TxnRequest with so many others, each the only success of the one
// around it. Built from the inside, as no library nests that deep.
func nested(depth int) []byte {
	var reversed []byte // innermost last: prepending to a growing slice would be quadratic
	size := 0
	prepend := func(field byte) {
		length := appendVarint(nil, size)
		for i := len(length) - 1; i >= 0; i-- {
			reversed = append(reversed, length[i])
		}
		reversed = append(reversed, field<<3|2)
		size += len(length) + 1
	}
	for range depth {
		prepend(4) // RequestOp.request_txn
		prepend(2) // TxnRequest.success
	}
	raw := make([]byte, len(reversed))
	for i, b := range reversed {
		raw[len(raw)-1-i] = b
	}
	return raw
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}
