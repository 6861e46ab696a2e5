package etcdshim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sqlstore/sqlstore/internal/store"
)

// web serves the gateway.
func webOf(t *testing.T, s *served) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(s.Gateway)
	t.Cleanup(web.Close)
	return web
}

// speak opens a connection and sends text unchanged.
func speak(t *testing.T, web *httptest.Server, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// readAnswer returns the answer's status and body.
func readAnswer(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.ReplaceAll(string(body), " ", "")
}

// long is a JSON document of n bytes and a little.
func long(n int) string { return `{"key":"YQ==","value":"` + strings.Repeat("A", n) + `"}` }

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const (
	chunked = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	counted = " HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
	tooLong = 10 << 20 // more than the JSON of a message may have
)

// A body that is too long for a message is refused as in etcd, and not collected in memory first.
func TestGatewayRefusesLongBodies(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	const exhausted = `"code":8,"message":"grpc:receivedmessagelargerthanmax(`
	for name, c := range map[string]struct{ sent, want string }{
		"announced": {"POST /v3/kv/put" + fmt.Sprintf(counted, 1<<40), exhausted + "1099511627776vs."},
		"in chunks": {"POST /v3/kv/put" + chunked + chunk(long(tooLong)), exhausted},
		"a stream":  {"POST /v3/watch" + chunked + chunk(long(tooLong)), exhausted},
		// The server itself refuses a message that the gateway accepts.
		"a large message": {"POST /v3/kv/put" + chunked + chunk(long(4<<20)) + "0\r\n\r\n", exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			conn := speak(t, web, "")
			go func() { _, _ = io.WriteString(conn, c.sent) }() // it may be refused before all of it has arrived
			code, body := readAnswer(t, conn)
			if code != http.StatusTooManyRequests || !strings.Contains(body, c.want) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	conn := speak(t, web, "POST /v3/kv/put"+chunked+chunk(long(1<<20))+"0\r\n\r\n")
	if code, body := readAnswer(t, conn); code != http.StatusOK {
		t.Errorf("a put of 768 KiB: %d %s", code, body)
	}
}

// A websocket message has the same limit as a body, and is read as it arrives.
func TestGatewayRefusesLongMessages(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	socket, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(web.URL,
		"http")+"/v3/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() { _ = socket.WriteMessage(websocket.TextMessage, []byte(long(tooLong))) }()
	_, message, err := socket.ReadMessage()
	if text := strings.ReplaceAll(string(message), " ", ""); err != nil || !strings.Contains(text, `"code":8`) {
		t.Errorf("%s, %v", text, err)
	}
	if _, _, err := socket.ReadMessage(); err == nil {
		t.Error("the socket stays open")
	}
	eventually(t, "the call ends", func() bool { return s.Serving() == 0 })
}

// Large documents share one stream, and leave nothing behind in it.
func TestGatewayDocuments(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	socket, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(web.URL,
		"http")+"/v3/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	for i := range 24 { // 12 MiB in all, in messages of several documents or of a part of one
		create := fmt.Sprintf(`{"create_request":{"key":"YQ==","range_end":"%s","watch_id":"%d"}}`,
			strings.Repeat("YmJi", i%3<<17), 2*i+1)
		small := fmt.Sprintf(`{"create_request":{"key":"YQ==","watch_id":"%d"}}`, 2*i+2)
		for _, message := range []string{create[:18], create[18:] + small} {
			if err := socket.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
				t.Fatal(err)
			}
		}
		for id := 2*i + 1; id <= 2*i+2; id++ {
			_, message, err := socket.ReadMessage()
			if text := strings.ReplaceAll(string(message), " ", ""); err != nil || id > 1 && !strings.Contains(text,
				fmt.Sprintf(`"watch_id":"%d"`, id)) {
				t.Fatalf("watch %d: %.300s, %v", id, text, err)
			}
		}
	}
}

// Bodies that are announced, or stall, keep neither small nor large ones of others out.
func TestGatewaySlowBodies(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	for range 20 { // more than fit, if each reserved what it announces
		speak(t, web, "POST /v3/kv/put"+fmt.Sprintf(counted, 4<<20)+"{")
	}
	for range 8 { // each may become the longest
		speak(t, web, "POST /v3/kv/put"+chunked+chunk(long(100 << 10)[:100<<10]))
	}
	for _, n := range []int{1000, 200 << 10} {
		code, body := readAnswer(t, speak(t, web, "POST /v3/kv/put"+chunked+chunk(long(n))+"0\r\n\r\n"))
		if code != http.StatusOK {
			t.Errorf("a put of %d bytes: %d %s", n, code, body)
		}
	}
}

// A client that disconnects ends its call, however much of its body is unread.
func TestGatewayNoticesDisconnects(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	held := s.grant(t, 600)
	lock := func(lease int64) string { return fmt.Sprintf(`{"name":"bA==","lease":"%d"}`, lease) }
	if code, body := readAnswer(t, speak(t, web, "POST /v3/lock/lock"+fmt.Sprintf(counted,
		len(lock(held)))+lock(held))); code != http.StatusOK {
		t.Fatal(body)
	}
	waits := lock(s.grant(t, 600))
	const create = `{"create_request":{"key":"YQ=="}}`
	before := runtime.NumGoroutine()
	for name, sent := range map[string]string{
		"garbage":                  "POST /v3/watch" + chunked + chunk("{]"),
		"garbage after a request":  "POST /v3/watch" + chunked + chunk(create+"]"),
		"half a request":           "POST /v3/watch" + chunked + chunk(create[:10]),
		"no request":               "POST /v3/watch" + chunked,
		"a request":                "POST /v3/watch" + chunked + chunk(create),
		"a request, and the end":   "POST /v3/watch" + chunked + chunk(create) + "0\r\n\r\n",
		"more than a request":      "POST /v3/watch" + fmt.Sprintf(counted, len(create)) + create + "POST",
		"a wrong message":          "POST /v3/watch" + chunked + chunk(`{"create_request":7}`),
		"a keep-alive's garbage":   "POST /v3/lease/keepalive" + chunked + chunk("]"),
		"a body that is announced": "POST /v3/watch" + fmt.Sprintf(counted, 1000) + create + "]",
		"a lock":                   "POST /v3/lock/lock" + fmt.Sprintf(counted, len(waits)) + waits,
		"half a lock":              "POST /v3/lock/lock" + fmt.Sprintf(counted, len(waits)) + waits[:5],
		"an election":              "POST /v3/election/observe" + chunked + chunk(`{"name":"bA=="}x`),
	} {
		t.Run(name, func(t *testing.T) {
			conn := speak(t, web, sent)
			// the others do not get that far, or end earlier
			if strings.HasPrefix(sent, "POST /v3/watch") || name == "a lock" {
				eventually(t, "the call begins", func() bool { return s.Serving() > 0 })
			}
			if strings.Contains(sent, create) && strings.Contains(name, "request") {
				answer, line := bufio.NewReader(conn), ""
				for err := error(nil); !strings.Contains(line, "created"); line, err = answer.ReadString('\n') {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = conn.Close()
			eventually(t, "the call ends", func() bool { return s.Serving() == 0 })
		})
	}
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "its goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
