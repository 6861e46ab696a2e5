package postgres

import (
	"net"
	"net/url"
	"testing"
)

// proxied returns a DSN that leads through a proxy. For each connection of a client, the proxy makes one to the server,
// passes both to pass, and closes them when that returns.
func proxied(t *testing.T, dsn string, pass func(client, server net.Conn)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	to := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				pass(client, server)
			}()
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}
