package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxOpening limits what is read from an HTTP/2 connection, in bytes, to find out whether its first request is a gRPC
// call.
const maxOpening = 64 << 10

// maxFrame is the largest frame that HTTP/2 allows without other settings, in bytes.
const maxFrame = 16 << 10

// openHTTP2 reads a connection up to the headers of its first request, and reports whether that is a gRPC call. If it
// cannot tell, or the client sends no request before the connection's deadline, it assumes one: gRPC clients connect
// long before they call. Most of them wait for the server's settings, so openHTTP2 sends its own, which only limit the
// concurrent streams, if at all. The server that serves the connection then sends all of its settings. Until then
// openHTTP2 answers pings.
func openHTTP2(c *tls.Conn, maxStreams uint32) (_ *openedConn, isGRPC bool, err error) {
	from := &recorder{Reader: c, left: maxOpening}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(from, preface); err != nil || string(preface) != http2.ClientPreface {
		return nil, false, errSilent
	}
	frames := http2.NewFramer(c, from)
	frames.SetMaxReadFrameSize(maxFrame)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var settings []http2.Setting
	if maxStreams > 0 {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams})
	}
	if err := frames.WriteSettings(settings...); err != nil {
		return nil, false, errSilent
	}
	opened := &openedConn{Conn: c, tls: c}
	for begun, acknowledged := false, false; ; {
		start := len(from.read)
		frame, err := frames.ReadFrame()
		switch idle := begun && errors.Is(from.failed, os.ErrDeadlineExceeded); {
		case from.failed != nil && !idle:
			return nil, false, errSilent
		case err != nil:
			// The gRPC server finds an error in the frame, too. In the middle of one, the acknowledgement cannot be
			// found, but that server ignores it.
			opened.head, opened.unacknowledged = from.read, !acknowledged && len(from.read) == start
			return opened, true, nil
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			begun = true
			if f.IsAck() && !acknowledged {
				acknowledged = true
				from.read = from.read[:start]
			}
		case *http2.PingFrame:
			if !f.IsAck() && frames.WritePing(true, f.Data) != nil {
				return nil, false, errSilent
			}
			from.read = from.read[:start]
		case *http2.MetaHeadersFrame:
			isGRPC := false
			for _, h := range f.RegularFields() {
				isGRPC = isGRPC || h.Name == "content-type" && strings.HasPrefix(h.Value, "application/grpc")
			}
			opened.head, opened.unacknowledged = from.read, !acknowledged
			return opened, isGRPC, nil
		}
	}
}

// errLongOpening ends the search for the first request.
var errLongOpening = errors.New("the first request is not among what the client has sent first")

// recorder records what is read from a client, up to a limit.
type recorder struct {
	io.Reader
	read   []byte
	left   int   // bytes that may still be read
	failed error // from Reader
}

func (r *recorder) Read(p []byte) (n int, err error) {
	if r.left == 0 {
		return 0, errLongOpening
	}
	n, err = r.Reader.Read(p[:min(len(p), r.left)])
	r.read, r.left, r.failed = append(r.read, p[:n]...), r.left-n, err
	return n, err
}

// openedConn is a connection of which openHTTP2 has read the beginning. It does not show net/http that it is encrypted,
// because net/http serves HTTP/2 over TLS only to a [tls.Conn]; see [ShowTLS].
type openedConn struct {
	net.Conn
	tls *tls.Conn

	head []byte // read before the connection
	// unacknowledged means that the client has yet to acknowledge the settings of openHTTP2. The server of the
	// connection must not see that: it would take it for the answer to its own.
	unacknowledged bool
	left           int // bytes in the rest of a frame
}

// NetConn returns the connection below, as [tls.Conn] does.
func (c *openedConn) NetConn() net.Conn { return c.tls.NetConn() }

func (c *openedConn) Read(p []byte) (n int, err error) {
	for {
		switch {
		case len(c.head) > 0:
			n = copy(p, c.head)
			if c.head = c.head[n:]; len(c.head) == 0 {
				c.head = nil // which frees it
			}
			return n, nil
		case !c.unacknowledged:
			return c.Conn.Read(p)
		case c.left > 0:
			n, err = c.Conn.Read(p[:min(len(p), c.left)])
			c.left -= n
			return n, err
		}
		if err := c.nextFrame(); err != nil {
			return 0, err
		}
	}
}

// nextFrame reads the header of a frame, and drops the frame if it acknowledges the settings of openHTTP2.
func (c *openedConn) nextFrame() error {
	header := make([]byte, 9)
	if _, err := io.ReadFull(c.Conn, header); err != nil {
		return err
	}
	if http2.FrameType(header[3]) == http2.FrameSettings && http2.Flags(header[4]).Has(http2.FlagSettingsAck) {
		c.unacknowledged = false
		return nil
	}
	c.head, c.left = header, int(header[0])<<16|int(header[1])<<8|int(header[2])
	return nil
}

// ShowTLS sets the TLS state of requests whose connection hides it from net/http.
func ShowTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*openedConn); ok && r.TLS == nil {
			state := c.tls.ConnectionState()
			r = r.WithContext(r.Context())
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}
