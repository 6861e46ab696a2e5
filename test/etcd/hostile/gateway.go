package hostile

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"time"
)

func gatewayAbuses() []abuse {
	return []abuse{
		{name: "gateway: watches whose body is not read to its end", short: 300, full: 3_000, attack: leaveWatches},
		{
			name: "gateway: lists that nobody reads", short: 64, full: 500, objects: 10_000, lingers: true,
			attack: unreadJSON,
		},
		{name: "gateway: calls that are left at once", short: 2_000, full: 40_000, objects: 10_000, attack: leaveJSON},
		{name: "gateway: requests in a row", short: 5_000, full: 100_000, attack: pipelined},
		{name: "gateway: nested JSON", short: 200, full: 2_000, peak: 192 << 20, attack: nestedJSON},
		{name: "gateway: headers without end", short: 100, full: 1_000, attack: endlessHeaders},
	}
}

func post(path, body string, length int) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
}

// each opens n connections and runs f on each.
func (t *target) each(ctx context.Context, n int, f func(i int, conn net.Conn) error) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		for i := range n {
			conn, err := t.conn(ctx, "http/1.1")
			if err != nil {
				return i, err
			}
			if err := f(i, conn); err != nil {
				return i, err
			}
		}
		return n, nil
	})
}

// hangUp closes a connection. That the server was faster, which TLS reports, is no failure of the attacker.
func hangUp(conn net.Conn) error {
	_ = conn.Close()
	return nil
}

// leaveWatches starts watches, waits for the first answer and hangs up, without sending most of the announced body.
func leaveWatches(ctx context.Context, t *target, n int) (int, error) {
	key := base64.StdEncoding.EncodeToString([]byte("a"))
	bodies := []string{
		fmt.Sprintf(`{"create_request":{"key":%q}}`, key),
		fmt.Sprintf(`{"create_request":{"key":%q}} trailing`, key),
		fmt.Sprintf(`{"create_request":{"key":%q}}{"create_request":{"key":`, key),
		fmt.Sprintf(`{"create_request":{"key":%q}}`, key) + strings.Repeat(" ", 300<<10),
	}
	return t.each(ctx, n, func(i int, conn net.Conn) error {
		body := bodies[i%len(bodies)]
		length := len(body)
		if i%8 < 4 {
			length += 1 << 20
		}
		_, _ = conn.Write(post("/v3/watch", body, length))
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // an answer may wait for the rest of the body
		_, _ = bufio.NewReader(conn).ReadString('\n')
		return hangUp(conn)
	})
}

const listJSON = `{"key":"AA==","range_end":"AA=="}`

func unreadJSON(ctx context.Context, t *target, n int) (int, error) {
	return t.each(ctx, n, func(_ int, conn net.Conn) error {
		keep(conn)
		_, err := conn.Write(post("/v3/kv/range", listJSON, len(listJSON)))
		return err
	})
}

func leaveJSON(ctx context.Context, t *target, n int) (int, error) {
	return t.each(ctx, n, func(_ int, conn net.Conn) error {
		_, _ = conn.Write(post("/v3/kv/range", listJSON, len(listJSON)))
		return hangUp(conn)
	})
}

// pipelined sends request upon request, and reads no answer.
func pipelined(ctx context.Context, t *target, n int) (int, error) {
	const row = 100
	raw := []byte(strings.Repeat("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", row))
	done, err := t.each(ctx, n/row, func(_ int, conn net.Conn) error {
		_, _ = conn.Write(raw)
		return hangUp(conn)
	})
	return done * row, err
}

func nestedJSON(ctx context.Context, t *target, n int) (int, error) {
	const depth = 50_000
	body := strings.Repeat(`{"success":[{"request_txn":`, depth) + "{}" + strings.Repeat("}]}", depth)
	return t.each(ctx, n, func(_ int, conn net.Conn) error {
		_, _ = conn.Write(post("/v3/kv/txn", body, len(body)))
		_, _ = bufio.NewReader(conn).ReadString('\n')
		return hangUp(conn)
	})
}

func endlessHeaders(ctx context.Context, t *target, n int) (int, error) {
	line := []byte("X: " + strings.Repeat("x", 64<<10) + "\r\n")
	return t.each(ctx, n, func(_ int, conn net.Conn) error {
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"))
		for range 64 {
			if _, err := conn.Write(line); err != nil {
				break // the server's right
			}
		}
		return hangUp(conn)
	})
}
