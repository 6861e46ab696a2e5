package restapi_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/restapi"
)

// Bodies that are long in coming do not fill the memory, and do not keep small ones out.
func TestManyLargeBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	large := strings.Repeat("x", 1<<20)
	var slow []net.Conn
	drop := func() {
		for _, conn := range slow {
			_ = conn.Close()
		}
	}
	defer drop()
	for range 64 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		if _, err := fmt.Fprintf(conn, "PUT /v1/objects/slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\nx", 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	// until puts a large body until it is answered so.
	until := func(done func(code int) bool) *reply {
		for deadline := time.Now().Add(patience); ; {
			r := s.do("PUT", "/v1/objects/large", large, bytesType)
			if done(r.code) {
				return r
			}
			if time.Now().After(deadline) {
				t.Fatalf("a large body is still answered %d: %.300s", r.code, r.body)
			}
		}
	}
	if r := until(func(code int) bool { return code == 429 }); r.want(429, "TooManyRequests").header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	chunked := "PUT /v1/objects/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
	if got := raw(t, s, fmt.Sprintf(chunked, "c1", len(large), large)); got != "429 Too Many Requests" {
		t.Errorf("a large body of chunks: %s", got)
	}
	if got := raw(t, s, fmt.Sprintf(chunked, "c2", 5, "small")); got != "201 Created" {
		t.Errorf("a small body of chunks: %s", got)
	}
	s.do("PUT", "/v1/objects/small", `{"value":1}`, jsonType).want(201, "")
	s.do("DELETE", "/v1/objects/small", `{"preconditions":null}`).want(200, "")

	drop()
	until(func(code int) bool { return code == 201 || code == 409 })
	if got := raw(t, s, fmt.Sprintf(chunked, "c3", len(large), large)); got != "201 Created" {
		t.Errorf("a large body of chunks, when there is room again: %s", got)
	}
	if row := s.stored("c3"); row == nil || string(row.Value) != large {
		t.Error("c3 is not what was put")
	}
}
