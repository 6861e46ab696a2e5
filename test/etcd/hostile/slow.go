package hostile

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
)

func slowAbuses() []abuse {
	const few, many = 500, 5_000
	// below sends it below TLS, if there is TLS at all, before any handshake.
	saying := func(below bool, what func() []byte) func(context.Context, *target, int) (int, error) {
		return func(ctx context.Context, t *target, n int) (int, error) { return begin(ctx, t, n, below, what()) }
	}
	hello := []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}
	constant := func(s string) func() []byte { return func() []byte { return []byte(s) } }
	return []abuse{
		{
			name: "connections that say nothing", secure: true, short: few, full: many, lingers: true,
			attack: saying(true, constant("")),
		},
		{
			name: "connections that greet and say nothing", secure: true, short: few, full: many, lingers: true,
			attack: saying(false, constant(http2.ClientPreface)),
		},
		{
			name: "half a TLS hello", secure: true, short: few, full: many, lingers: true,
			attack: saying(true, func() []byte { return hello }),
		},
		{
			name: "half an HTTP/2 preface", short: few, full: many, lingers: true,
			attack: saying(false, constant(http2.ClientPreface[:10])),
		},
		{name: "half a line", short: few, full: many, lingers: true, attack: saying(false, constant("GET /health HT"))},
		{name: "lines without end", short: few, full: many, lingers: true, attack: drip},
		{name: "half a body", secure: true, short: few, full: many, lingers: true, attack: saying(false, constant(
			"POST /v3/kv/range HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "+
				"1000000\r\n\r\n{\"key\":\""))},
		{name: "half a message", short: few, full: many, lingers: true, keeps: 16 << 20, attack: halfMessage},
		{name: "garbage", short: few, full: many, attack: garbageOnThePort},
		{name: "connections that come and go", secure: true, short: 2_000, full: 50_000, attack: comeAndGo},
	}
}

// begin opens n connections and sends the same on each.
func begin(ctx context.Context, t *target, n int, below bool, what []byte) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		for i := range n {
			dial := func(ctx context.Context) (net.Conn, error) { return t.conn(ctx, "h2", "http/1.1") }
			if below {
				dial = t.tcp
			}
			conn, err := dial(ctx)
			if err != nil {
				return i, err
			}
			keep(conn)
			if _, err := conn.Write(what); err != nil {
				return i, err
			}
		}
		return n, nil
	})
}

// drip opens n connections, and sends a little more on each from time to time.
func drip(ctx context.Context, t *target, n int) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		var conns []net.Conn
		for i := range n {
			conn, err := t.conn(ctx, "http/1.1")
			if err != nil {
				return i, err
			}
			keep(conn)
			conns = append(conns, conn)
			_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Line: ")
		}
		for range 5 {
			for _, conn := range conns {
				_, _ = conn.Write([]byte("xxxx")) // the server may have hung up
			}
			if !pause(ctx, 200*time.Millisecond) {
				break
			}
		}
		return n, nil
	})
}

// halfMessage sends only the beginning of messages of the greatest size.
func halfMessage(ctx context.Context, t *target, n int) (int, error) {
	part := append([]byte{0, 0, 0x1f, 0xff, 0xff}, make([]byte, 1<<10)...)
	return spread(n, connections, func(_, n int) (int, error) {
		for i := range n {
			f, err := t.http2(ctx)
			if err != nil {
				return i, err
			}
			keep(f.Conn)
			f.drain()
			if _, err := f.call(pb.KV_Put_FullMethodName, part, false); err != nil {
				return i, err
			}
			if err := f.out.Flush(); err != nil {
				return i, err
			}
		}
		return n, nil
	})
}

// garbageOnThePort sends bytes that fit no protocol, some of them behind a preface.
func garbageOnThePort(ctx context.Context, t *target, n int) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		for i := range n {
			dial := func(ctx context.Context) (net.Conn, error) { return t.conn(ctx, "h2", "http/1.1") }
			if i%2 == 0 {
				dial = t.tcp
			}
			conn, err := dial(ctx)
			if err != nil {
				return i, err
			}
			raw := make([]byte, 64<<10)
			_, _ = rand.Read(raw) // never fails
			if i%3 == 0 {
				copy(raw, http2.ClientPreface)
			}
			_, _ = conn.Write(raw) // the server may hang up in between
			_ = conn.Close()
		}
		return n, nil
	})
}

// comeAndGo connects and disconnects.
func comeAndGo(ctx context.Context, t *target, n int) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		for i := range n {
			conn, err := t.conn(ctx, "h2")
			if err != nil {
				return i, err
			}
			_ = conn.Close()
		}
		return n, nil
	})
}
