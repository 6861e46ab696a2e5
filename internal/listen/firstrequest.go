package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxOpening limits what is read from an HTTP/2 connection, in bytes, to find out whether its first request is a gRPC
// call.
const maxOpening = 64 << 10

// openHTTP2 reads a connection up to the headers of its first request, and reports whether that is a gRPC call. If it
// cannot tell, it assumes one. Most gRPC clients send no request before they know the server's settings, so openHTTP2
// sends empty ones; the server that serves the connection then sends its own. Until then it answers pings.
func openHTTP2(c *tls.Conn) (_ *openedConn, isGRPC bool, err error) {
	from := &recorder{Reader: c, left: maxOpening}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(from, preface); err != nil || string(preface) != http2.ClientPreface {
		return nil, false, errSilent
	}
	frames := http2.NewFramer(c, from)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := frames.WriteSettings(); err != nil {
		return nil, false, errSilent
	}
	opened := &openedConn{Conn: c, tls: c}
	for acknowledged := false; ; {
		began := len(from.read)
		frame, err := frames.ReadFrame()
		switch {
		case from.failed != nil:
			return nil, false, errSilent
		case err != nil:
			opened.head = from.read
			return opened, true, nil //nolint:nilerr // the gRPC server finds the same error and answers it
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			_ = c.SetDeadline(time.Time{}) // like any client that may pause between requests
			if f.IsAck() && !acknowledged {
				acknowledged = true
				from.read = from.read[:began]
			}
		case *http2.PingFrame:
			if !f.IsAck() && frames.WritePing(true, f.Data) != nil {
				return nil, false, errSilent
			}
			from.read = from.read[:began]
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
			c.head = c.head[n:]
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
