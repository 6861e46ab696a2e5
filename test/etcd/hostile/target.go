package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// target is the server as an attacker sees it.
type target struct {
	endpoint string
	tls      *tls.Config // nil without TLS
}

// tcp opens a connection below TLS, which ends with ctx at the latest.
func (t *target) tcp(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.endpoint)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn, nil
}

// conn opens a connection over TLS if the target has it.
func (t *target) conn(ctx context.Context, protocols ...string) (net.Conn, error) {
	conn, err := t.tcp(ctx)
	if err != nil || t.tls == nil {
		return conn, err
	}
	config := t.tls.Clone()
	config.NextProtos, config.ServerName = protocols, "127.0.0.1"
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// grpc returns a client's connection, one of its own for each call.
func (t *target) grpc(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if t.tls != nil {
		secure = credentials.NewTLS(t.tls)
	}
	return grpc.NewClient("passthrough:///"+t.endpoint, append(opts, grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))...)
}

// framed is an HTTP/2 connection that is written frame by frame.
type framed struct {
	net.Conn
	*http2.Framer
	out  *bufio.Writer
	next uint32 // stream
}

// http2 opens a connection and sends the preface. The server may send any amount; nothing is read.
func (t *target) http2(ctx context.Context) (*framed, error) {
	conn, err := t.conn(ctx, "h2")
	if err != nil {
		return nil, err
	}
	f := &framed{Conn: conn, out: bufio.NewWriterSize(conn, 32<<10), next: 1}
	f.Framer = http2.NewFramer(f.out, conn)
	f.AllowIllegalWrites = true
	_, _ = f.out.WriteString(http2.ClientPreface)
	const most = 1<<31 - 1
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: most})
	_ = f.WriteWindowUpdate(0, most-(1<<16-1))
	return f, f.out.Flush()
}

// drain reads and discards what the server sends.
func (f *framed) drain() { go func() { _, _ = io.Copy(io.Discard, f.Conn) }() }

// taken reports whether a step succeeded. The server may close a connection, or stop taking requests while their
// answers are not read; neither is an error of the attack.
func taken(err error) bool { return err == nil }

// flood takes n steps on a few HTTP/2 connections and discards the answers. The server may close such a connection:
// that ends the steps on it.
func (t *target) flood(ctx context.Context, n int, step func(*framed) error) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		f, err := t.http2(ctx)
		if err != nil {
			return 0, err
		}
		f.drain()
		for i := range n {
			if !taken(step(f)) {
				return i, nil
			}
		}
		if !taken(f.out.Flush()) {
			return 0, nil
		}
		return n, nil
	})
}

// call starts a gRPC call with one request, and returns its stream.
func (f *framed) call(method string, request []byte, end bool) (uint32, error) {
	id := f.next
	f.next += 2
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers(method), EndHeaders: true})
	if err == nil && request != nil {
		err = f.WriteData(id, end, request)
	}
	return id, err
}

var headerBlocks sync.Map // method -> []byte

// headers returns a call's header block, which does not depend on earlier blocks.
func headers(method string) []byte {
	if b, ok := headerBlocks.Load(method); ok {
		return b.([]byte)
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "127.0.0.1"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // a Buffer takes everything
	}
	headerBlocks.Store(method, block.Bytes())
	return block.Bytes()
}

const connections = 16

// message returns a request as gRPC sends it.
func message(m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err) // this package's own requests are valid
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
}

// spread divides n among several goroutines. Each gets the number of its connection and its share. spread returns the
// sum of what they did and the first error.
func spread(n, over int, f func(i, n int) (int, error)) (int, error) {
	var (
		wg    sync.WaitGroup
		done  atomic.Int64
		first atomic.Pointer[error]
	)
	for i := range over {
		share := n / over
		if i < n%over {
			share++
		}
		wg.Go(func() {
			did, err := f(i, share)
			done.Add(int64(did))
			if err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return int(done.Load()), *err
	}
	return int(done.Load()), nil
}

// briefly ends after half of the remaining time, for attacks that the server may stop by reading no more.
func briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// refused reports whether the server answered with an error, as opposed to no answer.
func refused(err error) bool {
	return status.Code(err) != codes.Unavailable || strings.HasPrefix(status.Convert(err).Message(), "etcdserver: ")
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
