package listen

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A client that has sent more than its request is noticed when it leaves.
func TestHangup(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	split := NewSplit(l, Mode{}, slog.New(slog.DiscardHandler))
	began, ended := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	s := &http.Server{
		Handler: WatchHangups(10*time.Millisecond, h), ConnContext: WithConn, ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = s.Serve(split.HTTP) }()
	t.Cleanup(func() { _ = split.Close() })
	t.Cleanup(func() { _ = s.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	<-began
	if _, err := fmt.Fprint(conn, "more than one byte"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("it ends while its client is there")
	case <-time.After(100 * time.Millisecond):
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("nobody notices that the client has gone")
	}
}
