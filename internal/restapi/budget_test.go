package restapi_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// Slow bodies do not fill the memory, and do not keep small ones out.
func TestManyLargeBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{Timeout: time.Hour}) // so that none gives way to others
	large := strings.Repeat("x", 1<<20)
	var slow []net.Conn
	drop := func() {
		for _, conn := range slow {
			_ = conn.Close()
		}
	}
	defer drop()
	for range 64 {
		slow = append(slow, s.begin(1<<20, 1<<20-1))
	}
	if r := s.putUntil(large, 429); r.want(429, "TooManyRequests").header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	chunked := "PUT /v1/objects/%s HTTP/1.1\r\nHost: x\r\nContent-Type: " +
		"application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
	if got := raw(t, s, fmt.Sprintf(chunked, "c1", len(large), large)); got != "429 Too Many Requests" {
		t.Errorf("a large body of chunks: %s", got)
	}
	if got := raw(t, s, fmt.Sprintf(chunked, "c2", 5, "small")); got != "201 Created" {
		t.Errorf("a small body of chunks: %s", got)
	}
	s.do("PUT", "/v1/objects/small", `{"value":1}`, jsonType).want(201, "")
	s.do("DELETE", "/v1/objects/small", `{"preconditions":null}`).want(200, "")

	drop()
	s.putUntil(large, 201, 409)
	if got := raw(t, s, fmt.Sprintf(chunked, "c3", len(large), large)); got != "201 Created" {
		t.Errorf("a large body of chunks, when there is capacity again: %s", got)
	}
	if row := s.stored("c3"); row == nil || string(row.Value) != large {
		t.Error("c3 is not what was put")
	}
}

// putUntil puts a large body until it gets the given answer.
func (s *served) putUntil(large string, codes ...int) *reply {
	s.t.Helper()
	for deadline := time.Now().Add(testTimeout); ; {
		r := s.do("PUT", "/v1/objects/large", large, bytesType)
		if slices.Contains(codes, r.code) {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("a large body is still answered %d: %.300s", r.code, r.body)
		}
	}
}

// Bodies that are announced and do not arrive keep nobody out.
func TestAnnouncedBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{Timeout: time.Hour})
	for range 100 { // each is being read once the server asks for it
		conn := s.begin(1<<20, 0, "Expect: 100-continue\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	s.do("PUT", "/v1/objects/large", strings.Repeat("x", 1<<20), bytesType).want(201, "")
}

// begin starts to put a body of this length and sends only the first bytes of it.
func (s *served) begin(length, sent int, header ...string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "PUT /v1/objects/slow HTTP/1.1\r\nHost: x\r\nContent-Type: "+
		"application/octet-stream\r\nContent-Length: %d\r\n%s\r\n%s", length, strings.Join(header, ""),
		strings.Repeat("x", sent)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// A stalled body frees capacity for a waiting one, and the others keep theirs.
func TestSlowBodyIsEvicted(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{Timeout: 2 * time.Minute}) // of which it may send nothing for 2 s
	var slow []net.Conn
	for range 64 {
		slow = append(slow, s.begin(1<<20, 1<<19))
	}
	large := strings.Repeat("x", 1<<20)
	answered := map[int]bool{}
	puts := 0
	for deadline := time.Now().Add(testTimeout); len(answered) == 0; puts++ {
		if time.Now().After(deadline) {
			t.Fatalf("none has given way to %d new ones", puts)
		}
		s.do("PUT", "/v1/objects/large", large, bytesType)
		for n, conn := range slow {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			b := make([]byte, 100)
			if read, _ := conn.Read(b); read > 0 && !answered[n] {
				answered[n] = true
				if !strings.HasPrefix(string(b), "HTTP/1.1 408 ") {
					t.Errorf("body %d is answered %.30q", n, b)
				}
			}
		}
	}
	if len(answered) > puts {
		t.Errorf("%d have given way to %d new ones", len(answered), puts)
	}
}
