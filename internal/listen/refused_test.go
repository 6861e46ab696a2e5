package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// logged collects the log, and signals new lines.
type logged struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines <- string(p)
	return l.text.Write(p)
}

// serveLogged accepts and drops clients, and returns its address and the log.
func serveLogged(t *testing.T, config *tls.Config) (addr string, log *logged) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log = &logged{lines: make(chan string, 100)}
	s := listen.NewSplit(l, listen.Mode{TLS: config}, slog.New(slog.NewTextHandler(log, nil)))
	var serving sync.WaitGroup
	for _, half := range []net.Listener{s.GRPC, s.HTTP} {
		serving.Go(func() {
			for {
				c, err := half.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		})
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return l.Addr().String(), log
}

func TestRefusedClientsAreLogged(t *testing.T) {
	a := authority.New(t)
	secure := tlsConfig(t, a, true)
	withTLS := func(c *tls.Config) func(net.Conn) error {
		return func(conn net.Conn) error {
			client := tls.Client(conn, c)
			if err := client.HandshakeContext(t.Context()); err != nil {
				return err
			}
			_, err := client.Read(make([]byte, 1)) // only here does it learn of a refused certificate
			return err
		}
	}
	plain := func(conn net.Conn) error {
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		return errors.Join(err, errors.New("no TLS"))
	}
	for name, c := range map[string]struct {
		config *tls.Config
		client func(net.Conn) error
		want   string
	}{
		"no certificate": {
			secure, withTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}),
			"client didn't provide a certificate",
		},
		"another's certificate": {secure, withTLS(&tls.Config{
			RootCAs: a.Pool(), ServerName: "localhost",
			Certificates: []tls.Certificate{authority.New(t).Pair("eve")},
		}), "unknown authority"},
		"trusts another authority": {secure, withTLS(&tls.Config{
			RootCAs:    authority.New(t).Pool(),
			ServerName: "localhost",
		}), "bad certificate"},
		"plaintext to TLS": {secure, plain, "does not look like a TLS handshake"},
		"TLS where there is none": {
			nil, withTLS(&tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}),
			"speaks TLS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr, log := serveLogged(t, c.config)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if c.client(conn) == nil {
				t.Fatal("it was served")
			}
			want := fmt.Sprintf(`level=WARN msg="client refused" client=%s reason="`, conn.LocalAddr())
			if line := <-log.lines; !strings.Contains(line, want) || !strings.Contains(line, c.want) {
				t.Errorf("logged %s, want %s...%s", line, want, c.want)
			}
		})
	}
}

// A client that keeps reconnecting does not fill the log, and one that only connects and disconnects is not logged.
func TestRefusedClientsAreLoggedInBounds(t *testing.T) {
	addr, log := serveLogged(t, tlsConfig(t, authority.New(t), true))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 20 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if _, err := conn.Write([]byte("nonsense nonsense")); err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Read(make([]byte, 100)) // until it is refused
			_, _ = conn.Read(make([]byte, 100))
		}
		_ = conn.Close()
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := strings.Count(log.text.String(), "client refused"); n != 5 || strings.Count(log.text.String(), "\n") != 5 {
		t.Errorf("%d of 10 clients:\n%s", n, &log.text)
	}
}
