package bodies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Body is a body that has been read.
type Body struct {
	// Bytes belong to the reader.
	Bytes []byte

	release func()
}

// Release releases the body's capacity. It may be called twice, and on nil.
func (b *Body) Release() {
	if b != nil && b.release != nil {
		b.release()
	}
}

// Read reads a body of length bytes, negative if unknown, and at most limit. Release it after use. abort must end a
// running read, from another goroutine; it is called if the body is too slow. Errors: [ErrFull], [ErrSlow],
// [*http.MaxBytesError], and those of reading, where [io.ErrUnexpectedEOF] means a body that ends early.
func (b *Budget) Read(ctx context.Context, from io.Reader, length, limit int64, abort func()) (*Body, error) {
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var slow atomic.Bool
	late := func() {
		slow.Store(true)
		abort()
	}
	timer := time.AfterFunc(b.timeout, late)
	defer timer.Stop()
	body := &Body{}
	var err error
	body.Bytes, err = b.read(ctx, from, length, limit, late, timer, body)
	switch {
	case err == nil:
		return body, nil
	case slow.Load():
		err = ErrSlow
	}
	body.Release()
	return nil, err
}

func (b *Budget) read(ctx context.Context, from io.Reader, length, limit int64, late func(), timer *time.Timer,
	body *Body,
) ([]byte, error) {
	var buf bytes.Buffer
	from = &bounded{from: from, left: limit, limit: limit}
	if length < 0 || length > Small { // most are small, and some clients announce what they do not send
		switch _, err := io.CopyN(&buf, from, Small); {
		case errors.Is(err, io.EOF):
			return buf.Bytes(), nil
		case err != nil:
			return nil, err
		}
		if length < 0 {
			length = limit
		}
		timer.Stop() // the client does not cause the wait for capacity
		reserved, err := b.Reserve(ctx, length, late)
		if err != nil {
			return nil, err
		}
		body.release = reserved.Release
		defer reserved.Arrived()
		deadline := time.Now().Add(b.timeout)
		timer.Reset(b.timeout)
		from = &reported{from, reserved}
		for most := reserved.Covers(); most < length; most = reserved.Covers() {
			buf.Grow(int(most) - buf.Len() + bytes.MinRead)
			switch _, err := io.CopyN(&buf, from, most-int64(buf.Len())); {
			case errors.Is(err, io.EOF):
				return buf.Bytes(), nil
			case err != nil:
				return nil, err
			}
			began := time.Now()
			timer.Stop()
			if err := reserved.Grow(ctx); err != nil {
				return nil, err
			}
			deadline = deadline.Add(time.Since(began))
			timer.Reset(time.Until(deadline))
		}
	}
	buf.Grow(int(length) - buf.Len() + bytes.MinRead)
	_, err := buf.ReadFrom(from)
	return buf.Bytes(), err
}

// reported records what arrives.
type reported struct {
	io.Reader
	reserved *Reservation
}

func (r *reported) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.reserved.Received(n)
	return n, err
}

// bounded fails with [*http.MaxBytesError] if more than limit bytes arrive.
type bounded struct {
	from        io.Reader
	left, limit int64
}

func (r *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	n, err := r.from.Read(p)
	if int64(n) > r.left {
		return int(r.left), &http.MaxBytesError{Limit: r.limit}
	}
	r.left -= int64(n)
	return n, err
}
