package etcdshim

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// request is a message that decodes itself, with the result of proto.Unmarshal. It may retain b.
type request interface {
	decode(b []byte) error
}

// codec encodes replies and decodes requests by hand, and leaves all other messages to protobuf.
//
// A request's bytes are copied once, out of the transport's buffer. The decoded keys and values point into that copy.
type codec struct {
	encoding.CodecV2 // protobuf's

	received, sent atomic.Uint64 // bytes of messages
}

var _ encoding.CodecV2 = (*codec)(nil)

func newCodec() *codec { return &codec{CodecV2: encoding.GetCodecV2(proto.Name)} }

func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	out, err := c.marshal(v)
	c.sent.Add(uint64(out.Len()))
	return out, err
}

func (c *codec) marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case reply:
		return encode(v)
	case encoded:
		return v.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// encoded is a reply that is already encoded.
type encoded struct{ data mem.BufferSlice }

func encode(r reply) (mem.BufferSlice, error) {
	n := r.size()
	if l, ok := r.(large); ok && n > largeReply {
		return marshalLarge(r, l, n)
	}
	buf := replies.Get(n)
	w := newWriter(*buf)
	r.write(&w)
	if w.i != 0 {
		return nil, fmt.Errorf("%T is %d bytes shorter than measured", r, w.i)
	}
	return mem.BufferSlice{mem.NewBuffer(buf, replies)}, nil
}

const (
	// largeReply is the size above which a list is sent from the rows' own memory: copying a long list would cost more
	// memory than everything else.
	largeReply = 1 << 20
	// largeValue is the size from which a value is sent as a separate piece.
	largeValue = 256
)

func marshalLarge(r reply, l large, n int) (mem.BufferSlice, error) {
	count, bytes := l.largeValues(largeValue)
	w := newWriter(make([]byte, n-bytes))
	w.cut, w.values = largeValue, make([]cutValue, 0, count)
	r.write(&w)
	if w.i != 0 || w.left != bytes {
		return nil, fmt.Errorf("%T is %d bytes shorter than measured", r, w.i+bytes-w.left)
	}
	out := make(mem.BufferSlice, 0, 2*count+1)
	from := 0
	for i := len(w.values) - 1; i >= 0; i-- {
		v := w.values[i]
		if v.at > from {
			out = append(out, mem.SliceBuffer(w.b[from:v.at]))
		}
		out = append(out, mem.SliceBuffer(v.value))
		from = v.at
	}
	return append(out, mem.SliceBuffer(w.b[from:])), nil
}

func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	c.received.Add(uint64(data.Len()))
	r, ok := v.(request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := make([]byte, data.Len())
	data.CopyTo(b)
	return r.decode(b)
}
