package listen

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// A client that only connects is taken for a gRPC client in the end, so that the gRPC server's keepalive watches it.
func TestIdleHTTP2(t *testing.T) {
	a := authority.New(t)
	pair := a.Pair("server")
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		const sent = http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x04" // half a header
		go func() {
			client := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- it is the other end
			if _, err := io.WriteString(client, sent); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, client)
		}()
		server := tls.Server(ours, &tls.Config{Certificates: []tls.Certificate{pair}})
		if err := server.SetDeadline(time.Now().Add(greeting)); err != nil {
			t.Fatal(err)
		}
		opened, isGRPC, err := openHTTP2(server, 0)
		if err != nil || !isGRPC {
			t.Fatalf("gRPC: %v, %v", isGRPC, err)
		}
		if string(opened.head) != sent {
			t.Errorf("the gRPC server reads %q, want %q", opened.head, sent)
		}
	})
}
