package restapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/bodies"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// call is one request in progress.
type call struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	ctl  *http.ResponseController
	to   target
	opts options
	op   *operation // nil until it is known
	verb string
	code int  // 0 until the answer begins
	read bool // the body has been read completely

	caller   string  // the user, if any
	revision int64   // of the answer, if it has one
	problem  *status // that was answered
	reported bool    // to the audit log

	failedLogin string // the user whose password was not accepted, if any

	received, begun time.Time // when the request was received, and when its answer began

	span tracing.Span // of the request

	held *bodies.Body // holds its capacity until the request is answered
}

// codeClientClosedRequest counts clients that disconnected before the answer, as in nginx.
const codeClientClosedRequest = 499

// serve determines the operation and runs it.
func (c *call) serve() (err error) {
	if c.to, err = parsePath(c.r.URL); err != nil {
		return err
	}
	op, err := find(c.to.kind, c.r)
	if err != nil {
		return err
	}
	c.op, c.verb = op, op.verb
	c.trace(c.s.o.Tracer)
	if c.to.kind != theOpenAPI { // which has no secrets, and describes how to authenticate
		if err := c.identify(); err != nil {
			return err
		}
	}
	if op.body == nil && c.r.ContentLength != 0 {
		return badRequest("a request of this kind has no body")
	}
	if err := op.unconditional(c.r); err != nil {
		return err
	}
	if err := op.parse(c.r, &c.opts); err != nil {
		return err
	}
	if err := op.refuseOfReads(c.r); err != nil {
		return err
	}
	return op.serve(c)
}

// head reports whether only the header of the answer is requested.
func (c *call) head() bool { return c.r.Method == http.MethodHead }

// extend gives the client time to receive the next write.
func (c *call) extend() {
	// A ResponseWriter without deadlines, as in a test, has none to extend.
	_ = c.ctl.SetWriteDeadline(time.Now().Add(c.s.o.Timeout))
}

// written ends that time if it would remain in force: over HTTP/2 a deadline ends the stream even between writes.
func (c *call) written() {
	if c.r.ProtoMajor > 1 {
		_ = c.ctl.SetWriteDeadline(time.Time{})
	}
}

// write sends a part of an answer.
func (c *call) write(b []byte) error {
	c.extend()
	defer c.written()
	return c.await(func() error { _, err := c.w.Write(b); return err })
}

// await runs f, which waits for the client. Meanwhile a stop does not wait for the request: its client may be silent.
func (c *call) await(f func() error) error {
	c.s.awaiting.Add(1)
	defer c.s.awaiting.Add(-1)
	return f()
}

// unreadTimeout is how long to wait for the rest of an unwanted body.
const unreadTimeout = time.Second

func (c *call) begin(code int) {
	c.code, c.begun = code, time.Now()
	if c.verb == verbWatch {
		c.report()
	}
	if c.r.ContentLength != 0 && !c.read {
		// Otherwise net/http waits for the body before it sends the answer, and again after that, for as long as the
		// client likes.
		if c.r.ProtoMajor == 1 {
			c.w.Header().Set("Connection", "close")
		}
		_ = c.ctl.SetReadDeadline(time.Now().Add(unreadTimeout))
	}
	c.w.WriteHeader(code)
}

const contentJSON = "application/json"

// answer sends a complete answer.
func (c *call) answer(code int, body []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", contentJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.extend()
	c.begin(code)
	if c.head() {
		return nil
	}
	return c.await(func() error { _, err := c.w.Write(body); return err })
}

// fail answers with the error or, if the answer has begun, cuts it off so that it is visibly incomplete.
func (c *call) fail(err error) {
	if c.code != 0 {
		if c.r.Context().Err() == nil {
			c.s.o.Logger.Debug("answer cut off", "path", c.r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler) // the way to make net/http do it
	}
	if c.r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		c.code = codeClientClosedRequest
		panic(http.ErrAbortHandler)
	}
	st := c.status(err)
	c.problem = st
	if seconds := st.retryAfter(); seconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	// A client that does not read it has disconnected.
	_ = c.answer(st.Code, append(st.json(), '\n'))
}

// buffers are for answers; [putBuffer] returns them.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxBuffer is the largest buffer that is retained.
const maxBuffer = 1 << 20

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) > maxBuffer {
		return
	}
	*b = (*b)[:0]
	buffers.Put(b)
}
