package etcdshim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/bodies"
)

// jsonCodec is grpc-gateway's JSON codec with support for the bodies that the gateway passes on.
type jsonCodec struct {
	*runtime.HTTPBodyMarshaler
	json *runtime.JSONPb
}

func newJSONCodec() *jsonCodec {
	c := &runtime.JSONPb{
		MarshalOptions: protojson.MarshalOptions{UseProtoNames: true},
		// Each level of a transaction is two messages, and 128 levels are allowed. The default of 10,000 needs a very
		// deep stack.
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 512},
	}
	return &jsonCodec{&runtime.HTTPBodyMarshaler{Marshaler: c}, c}
}

// Marshal implements [runtime.Marshaler]. It allocates the JSON of a large message at once: growing it would leave
// several times as much garbage.
func (c *jsonCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		if n := proto.Size(m); n >= permitReply {
			return c.json.MarshalOptions.MarshalAppend(make([]byte, 0, n/2*3), m)
		}
	}
	return c.HTTPBodyMarshaler.Marshal(v)
}

// NewDecoder implements [runtime.Marshaler].
func (c *jsonCodec) NewDecoder(r io.Reader) runtime.Decoder {
	switch b := r.(type) {
	case *whole:
		return runtime.DecoderFunc(func(v any) error { return b.decode(c, v) })
	case *documents:
		b.decoder = json.NewDecoder(reading{b})
		return runtime.DecoderFunc(func(v any) error { return b.decode(c, v) })
	}
	return c.json.NewDecoder(r)
}

// whole is a body that has been read completely.
type whole struct {
	*bytes.Reader
	body *bodies.Body
}

func newWhole(b *bodies.Body) *whole { return &whole{bytes.NewReader(b.Bytes), b} }

// Close implements [io.Closer].
func (*whole) Close() error { return nil }

// decode decodes the first document and releases the body, because the call may be long.
func (b *whole) decode(c *jsonCodec, v any) (err error) {
	defer func() {
		b.Reset(nil)
		b.body.Bytes = nil
		b.body.Release()
	}()
	if m, ok := v.(proto.Message); ok && c.json.UnmarshalOptions.Unmarshal(b.body.Bytes, m) == nil {
		return nil // without the copies of a decoder
	}
	return c.json.NewDecoder(b).Decode(v) // it has etcd's errors, and ignores trailing data
}

// documents is a body that is a stream of JSON documents. The buffered part of a document is limited, individually and,
// for large ones, in total.
type documents struct {
	io.ReadCloser
	of      *gateway
	ctx     context.Context
	end     func(error) // ends the call
	decoder *json.Decoder

	read     int64               // total bytes
	began    int64               // offset where the document began
	reserved *bodies.Reservation // of the document, nil while it is small
	failed   error
}

// decode decodes the next document. One goroutine calls it until it fails.
func (d *documents) decode(c *jsonCodec, v any) error {
	d.began = d.read - buffered(d.decoder)
	var text json.RawMessage
	err := d.decoder.Decode(&text)
	if d.reserved != nil {
		// Little of the next document has been read, but the decoder would keep its large buffer.
		rest, _ := io.ReadAll(d.decoder.Buffered())
		d.decoder = json.NewDecoder(io.MultiReader(bytes.NewReader(rest), reading{d}))
		d.reserved.Arrived()
	}
	if m, ok := v.(proto.Message); ok && err == nil {
		err = c.json.UnmarshalOptions.Unmarshal(text, m)
	}
	if d.reserved != nil {
		d.reserved.Release()
		d.reserved = nil
	}
	switch {
	case err == nil:
		return nil
	case d.failed != nil:
		d.end(d.failed)
	case !errors.Is(err, io.EOF):
		// As in etcd, the call continues without further requests. But a disconnect is noticed only while the body is
		// read.
		go func() { _, _ = io.Copy(io.Discard, d.ReadCloser) }()
	}
	if text := err.Error(); len(text) > loggedError && !errors.Is(err, io.EOF) {
		return errors.New(text[:loggedError])
	}
	return err
}

// loggedError limits what grpc-gateway logs of a document, which the error may repeat.
const loggedError = 200

func buffered(d *json.Decoder) int64 {
	r, _ := d.Buffered().(*bytes.Reader)
	return int64(r.Len())
}

// reading is the reader that a decoder uses on documents; it enforces their limits.
type reading struct{ *documents }

func (r reading) Read(p []byte) (int, error) {
	d := r.documents
	got := d.read - d.began
	if got >= d.of.limit {
		d.failed = &http.MaxBytesError{Limit: d.of.limit}
		return 0, d.failed
	}
	limit := d.of.limit - got
	if d.reserved == nil {
		limit = min(limit, bodies.Small-got)
	} else {
		limit = min(limit, d.reserved.Covers()-got)
	}
	for limit <= 0 {
		if err := d.reserve(); err != nil {
			d.failed = err
			return 0, err
		}
		limit = d.reserved.Covers() - got
	}
	n, err := d.ReadCloser.Read(p[:min(int64(len(p)), limit)])
	d.read += int64(n)
	if d.reserved != nil {
		d.reserved.Received(n)
	}
	return n, err
}

// reserve reserves memory for the next part of a document that is not small.
func (d *documents) reserve() (err error) {
	if d.reserved != nil {
		return d.reserved.Grow(d.ctx)
	}
	d.reserved, err = d.of.bodies.Reserve(d.ctx, d.of.limit, func() { d.end(bodies.ErrSlow) })
	return err
}
