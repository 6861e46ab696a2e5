package etcdshim

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

func pipeEnds(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := newPipes()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := l.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := l.dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
	return client, <-accepted
}

// Both ends can write any amount before either reads, and written data outlives its writer.
func TestPipeWritesDoNotWait(t *testing.T) {
	a, b := pipeEnds(t)
	const half, size = 1 << 20, 2 << 20
	for i, c := range []net.Conn{a, b} {
		for range 2 {
			if n, err := c.Write([]byte(strings.Repeat(string(rune('a'+i)), half))); n != half || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(a, got); err != nil || got[size-1] != 'b' {
		t.Fatal(err)
	}
	_ = a.Close()
	if got, err := io.ReadAll(b); len(got) != size || err != nil || got[size-1] != 'a' {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := a.Read(got); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := b.Write(got); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to a closed end: %v", err)
	}
}

func TestPipeDeadline(t *testing.T) {
	a, b := pipeEnds(t)
	if err := a.SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the deadline: %v", err)
	}
	_ = a.SetDeadline(time.Time{})
	_, _ = b.Write([]byte("x"))
	if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read without a deadline: %d, %v", n, err)
	}
}

// Abandoned calls do not block the gateway for others. The suite of hostile clients abandons more.
func TestGatewayOutlivesCallsThatAreLeft(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := webOf(t, s)
	for i := range 200 {
		s.put(t, "a"+strings.Repeat("x", i), strings.Repeat("x", 1<<10))
	}
	const all = `{"key":"YQ==","range_end":"Yg=="}`
	address := strings.TrimPrefix(web.URL, "http://")
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 30 {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn,
					"POST /v3/kv/range HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 33\r\n\r\n"+all)
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	client := &http.Client{Timeout: 30 * time.Second}
	resp, err := client.Post(web.URL+"/v3/kv/range", "application/json", strings.NewReader(all))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%d, %v", resp.StatusCode, err)
	}
}
