package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// codec is grpc's protobuf codec, except that it walks the bulky answers in place instead of decoding them: the client
// shares the machine with the server and must leave it the time.
type codec struct{ encoding.CodecV2 }

// walker is an answer that reads itself from its encoded form.
type walker interface{ walk(b []byte) error }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	w, ok := v.(walker)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	// Not grpc's pool: that returns, and clears, any large buffer it has, and after a full list of a gigabyte it has
	// one of that size.
	b := scratch.Get().(*[]byte)
	n := data.Len()
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	data.CopyTo(*b)
	err := w.walk(*b)
	if n <= 16<<20 {
		scratch.Put(b)
	}
	return err
}

var scratch = sync.Pool{New: func() any { return new([]byte) }}

var errWire = errors.New("malformed message")

// fields calls bytes or number for each field of an encoded message.
func fields(b []byte, bytes func(protowire.Number, []byte) error, number func(protowire.Number, uint64)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		switch typ {
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return errWire
			}
			if err := bytes(num, v); err != nil {
				return err
			}
			b = b[n:]
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return errWire
			}
			number(num, v)
			b = b[n:]
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return errWire
			}
			b = b[n:]
		}
	}
	return nil
}

// kv is a KeyValue seen in place; key and value are valid only during the walk.
type kv struct {
	key, value []byte
	mod        int64
}

func (k *kv) walk(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte) error {
		switch num {
		case 1:
			k.key = v
		case 5:
			k.value = v
		}
		return nil
	}, func(num protowire.Number, v uint64) {
		if num == 3 {
			k.mod = int64(v)
		}
	})
}

// stamp is the number that a value carries in its first eight bytes.
func (k *kv) stamp() uint64 {
	if len(k.value) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k.value)
}

func headerRevision(b []byte) (rev int64, err error) {
	err = fields(b, func(protowire.Number, []byte) error { return nil }, func(num protowire.Number, v uint64) {
		if num == 3 {
			rev = int64(v)
		}
	})
	return rev, err
}

// rangeReply is a RangeResponse; check sees each of its objects in turn.
type rangeReply struct {
	check    func(i int, k *kv) error
	revision int64
	more     bool
	count    int64
	n        int
}

func (r *rangeReply) reset() { r.revision, r.more, r.count, r.n = 0, false, 0, 0 }

func (r *rangeReply) walk(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte) (err error) {
		switch num {
		case 1:
			r.revision, err = headerRevision(v)
		case 2:
			var k kv
			if err = k.walk(v); err == nil {
				err = r.check(r.n, &k)
			}
			r.n++
		}
		return err
	}, func(num protowire.Number, v uint64) {
		switch num {
		case 3:
			r.more = v != 0
		case 4:
			r.count = int64(v)
		}
	})
}

// streamReply is one RangeStreamResponse; it adds to the rangeReply inside.
type streamReply struct{ rangeReply }

func (s *streamReply) walk(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte) error {
		if num == 1 {
			return s.rangeReply.walk(v)
		}
		return nil
	}, func(protowire.Number, uint64) {})
}

// watchReply is one WatchResponse; event sees each of its events in turn.
type watchReply struct {
	event    func(cur, prev *kv) error
	created  bool
	canceled bool
	reason   string
}

func (w *watchReply) walk(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte) error {
		switch num {
		case 6:
			w.reason = string(v)
		case 11:
			var cur, prev kv
			err := fields(v, func(num protowire.Number, v []byte) error {
				switch num {
				case 2:
					return cur.walk(v)
				case 3:
					return prev.walk(v)
				}
				return nil
			}, func(protowire.Number, uint64) {})
			if err != nil {
				return fmt.Errorf("event: %w", err)
			}
			return w.event(&cur, &prev)
		}
		return nil
	}, func(num protowire.Number, v uint64) {
		switch num {
		case 3:
			w.created = v != 0
		case 4:
			w.canceled = v != 0
		}
	})
}
