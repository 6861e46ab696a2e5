package restapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/bodies"
)

// call is one request on its way.
type call struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	ctl  *http.ResponseController
	to   target
	opts options
	verb string
	code int  // 0 until the answer has begun
	read bool // the body has been read to its end

	held *bodies.Body // keeps its room until the request is answered
}

// codeGone is counted for clients that went away before they were answered, as nginx counts them.
const codeGone = 499

// serve finds out what is asked and does it.
func (c *call) serve() (err error) {
	if c.to, err = parsePath(c.r.URL); err != nil {
		return err
	}
	op, err := find(c.to.kind, c.r)
	if err != nil {
		return err
	}
	c.verb = op.verb
	if op.body == nil && c.r.ContentLength != 0 {
		return badRequest("a request of this kind has no body")
	}
	if err := op.parse(c.r, &c.opts); err != nil {
		return err
	}
	return op.serve(c)
}

// head says that only the answer's header is wanted.
func (c *call) head() bool { return c.r.Method == http.MethodHead }

// extend gives the client time to take what is written next.
func (c *call) extend() {
	// A ResponseWriter without deadlines, as in a test, has none to extend.
	_ = c.ctl.SetWriteDeadline(time.Now().Add(c.s.o.Timeout))
}

// written ends that time where it would go on: over HTTP/2 a deadline ends the stream though nothing is being written.
func (c *call) written() {
	if c.r.ProtoMajor > 1 {
		_ = c.ctl.SetWriteDeadline(time.Time{})
	}
}

// write sends a part of an answer.
func (c *call) write(b []byte) error {
	c.extend()
	_, err := c.w.Write(b)
	c.written()
	return err
}

// unreadPatience is how long the rest of a body that nobody wants is waited for.
const unreadPatience = time.Second

func (c *call) begin(code int) {
	c.code = code
	if c.r.ContentLength != 0 && !c.read {
		// Else net/http waits for the body before it sends the answer, and again after that, for as long as the client
		// likes.
		if c.r.ProtoMajor == 1 {
			c.w.Header().Set("Connection", "close")
		}
		_ = c.ctl.SetReadDeadline(time.Now().Add(unreadPatience))
	}
	c.w.WriteHeader(code)
}

const contentJSON = "application/json"

// answer sends a whole answer.
func (c *call) answer(code int, body []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", contentJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.extend()
	c.begin(code)
	if c.head() {
		return nil
	}
	_, err := c.w.Write(body)
	return err
}

// fail answers with what went wrong, or, when the answer has begun, cuts it off where everybody sees that it is not
// whole.
func (c *call) fail(err error) {
	if c.code != 0 {
		if c.r.Context().Err() == nil {
			c.s.o.Logger.Debug("an answer is cut off", "path", c.r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler) // how net/http is told to
	}
	if c.r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		c.code = codeGone
		panic(http.ErrAbortHandler)
	}
	st := c.status(err)
	if seconds := st.retryAfter(); seconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	// A client that does not take it is gone.
	_ = c.answer(st.Code, append(st.json(), '\n'))
}

// buffers are for answers; they are given back by [putBuffer].
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// keptBuffer is the largest buffer that is kept.
const keptBuffer = 1 << 20

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) > keptBuffer {
		return
	}
	*b = (*b)[:0]
	buffers.Put(b)
}
