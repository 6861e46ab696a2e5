package etcdshim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// A websocket is a call whose body and answer are streams of messages, each a JSON document, as in etcd.

var upgrader = websocket.Upgrader{
	ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
	CheckOrigin: func(*http.Request) bool { return true }, // the origin is checked earlier
}

// socketGoodbye is how long a client may take to receive the close message.
const socketGoodbye = time.Second

// bearer is the subprotocol that carries a token.
const bearer = "Bearer"

func (g *gateway) socket(w http.ResponseWriter, r *http.Request) {
	var header http.Header
	if strings.HasPrefix(r.Header.Get("Sec-WebSocket-Protocol"), bearer) {
		header = http.Header{"Sec-WebSocket-Protocol": {bearer}}
	}
	conn, err := upgrader.Upgrade(w, r, header)
	if err != nil {
		g.log.Debug("no websocket", "error", err) // the client already has its answer
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	body, messages := io.Pipe()
	defer body.Close()
	request, err := socketRequest(ctx, r, body)
	if err != nil {
		g.log.Debug("no request from a websocket", "error", err)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel() // the client has disconnected
		_ = messages.CloseWithError(readSocket(conn, messages))
	}()
	answer := &socketWriter{conn: conn, header: http.Header{}}
	g.serve(answer, request, func(time.Duration) { _ = body.CloseWithError(context.DeadlineExceeded) })
	answer.close()
	// The client answers the close message, or is still sending and would miss it after a reset.
	_ = conn.SetReadDeadline(time.Now().Add(socketGoodbye))
	_ = body.Close()
	<-ended
	_, _ = io.Copy(io.Discard, conn.NetConn())
}

// socketRequest is the request for which r opened the socket: a POST with the headers that etcd passes on.
func socketRequest(ctx context.Context, r *http.Request, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL.String(), body)
	if err != nil {
		return nil, err
	}
	request.ContentLength, request.RemoteAddr = -1, r.RemoteAddr
	if _, token, ok := strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), bearer+","); ok {
		request.Header.Set("Authorization", bearer+" "+strings.Trim(token, " "))
	}
	for _, name := range []string{"Origin", "Referer"} {
		if v := r.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	if cookie, err := r.Cookie("token"); err == nil {
		request.Header.Set("Authorization", bearer+" "+cookie.Value)
	}
	return request, nil
}

// readSocket copies messages until the socket or the body is closed, and then returns [io.EOF]. It holds no message in
// memory.
func readSocket(conn *websocket.Conn, body io.Writer) error {
	for piece := make([]byte, 4<<10); ; {
		_, message, err := conn.NextReader()
		if err != nil {
			return io.EOF
		}
		if _, err := io.CopyBuffer(body, message, piece); err != nil {
			return io.EOF
		}
		if _, err := body.Write([]byte("\n")); err != nil {
			return io.EOF
		}
	}
}

// socketWriter sends each line of an answer as a message.
type socketWriter struct {
	conn    *websocket.Conn
	header  http.Header
	message io.WriteCloser // nil between two lines
}

func (w *socketWriter) Header() http.Header { return w.header }

// WriteHeader does nothing: the socket is already open.
func (w *socketWriter) WriteHeader(int) {}

// Flush does nothing: each line is sent when it ends.
func (w *socketWriter) Flush() {}

func (w *socketWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if err := w.part(line); err != nil {
			return n, err
		}
		if n += len(line); ended {
			n++
			if err := w.endLine(); err != nil {
				return n, err
			}
		}
		p = rest
	}
	return n, nil
}

func (w *socketWriter) part(p []byte) (err error) {
	if len(p) == 0 {
		return nil
	}
	if w.message == nil {
		if w.message, err = w.conn.NextWriter(websocket.TextMessage); err != nil {
			return err
		}
	}
	_, err = w.message.Write(p)
	return err
}

func (w *socketWriter) endLine() error {
	if w.message == nil {
		return nil
	}
	err := w.message.Close()
	w.message = nil
	return err
}

// close ends the last line and the socket. A client that does not receive it has disconnected.
func (w *socketWriter) close() {
	_ = w.endLine()
	_ = w.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
		time.Now().Add(socketGoodbye))
}
