package etcdshim

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// request is a message that decodes itself, as proto.Unmarshal would. It may keep b.
type request interface {
	decode(b []byte) error
}

// codec encodes replies and decodes requests by hand, and leaves all other messages to protobuf.
//
// A request's bytes are copied once, out of the transport's buffer, and the decoded keys and values point into that copy.
type codec struct {
	encoding.CodecV2 // protobuf's
}

var _ encoding.CodecV2 = codec{}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(reply)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	n := r.size()
	buf := replies.Get(n)
	w := newWriter(*buf)
	r.write(&w)
	if w.i != 0 {
		return nil, fmt.Errorf("%T is %d bytes shorter than measured", v, w.i)
	}
	return mem.BufferSlice{mem.NewBuffer(buf, replies)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := make([]byte, data.Len())
	data.CopyTo(b)
	return r.decode(b)
}
