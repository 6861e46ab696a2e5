package listen_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

func TestParseURLs(t *testing.T) {
	for _, c := range []struct {
		url, scheme, address string
		secure, local        bool
	}{
		{"http://127.0.0.1:2379", "http", "127.0.0.1:2379", false, true},
		{"http://localhost:2379/", "http", "localhost:2379", false, true},
		{"http://[::1]:2379", "http", "[::1]:2379", false, true},
		{"http://127.9.9.9:1", "http", "127.9.9.9:1", false, true},
		{"http://0.0.0.0:2379", "http", "0.0.0.0:2379", false, false},
		{"http://[::]:2379", "http", "[::]:2379", false, false},
		{"http://:2379", "http", ":2379", false, false},
		{"http://10.0.0.1:2379", "http", "10.0.0.1:2379", false, false},
		{"https://10.0.0.1:2379", "https", "10.0.0.1:2379", true, false},
		{"unix:///run/x.sock", "unix", "/run/x.sock", false, true},
		{"unix://localhost:2379", "unix", "localhost:2379", false, true},
		{"unixs://run/x.sock", "unixs", "run/x.sock", true, true},
		{" http://127.0.0.1:2379 ", "http", "127.0.0.1:2379", false, true},
	} {
		got, err := listen.ParseURLs([]string{c.url})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		u := got[0]
		if u.Scheme != c.scheme || u.Address != c.address || u.Secure() != c.secure || u.Local() != c.local {
			t.Errorf("%s: got %+v, secure %v, local %v", c.url, u, u.Secure(), u.Local())
		}
	}
}

func TestParseURLsRefuses(t *testing.T) {
	for url, why := range map[string]string{
		"ftp://127.0.0.1:1":      "scheme",
		"127.0.0.1:2379":         "write http://127.0.0.1:2379 or https://",
		"localhost:2379":         "write http://localhost:2379 or https://",
		"http://127.0.0.1":       "host:port",
		"http://127.0.0.1:":      "port is missing",
		"http://127.0.0.1:65536": "from 0 to 65535",
		"http://127.0.0.1:1/x":   "no path",
		"http://example.com:1":   "IP address",
		"unix://":                "path is missing",
	} {
		_, err := listen.ParseURLs([]string{"http://127.0.0.1:1", url})
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), url) {
			t.Errorf("%s: got %v, want an error with %q", url, err, why)
		}
	}
}

func TestPlaintextIsRefusedBeyondTheLoopback(t *testing.T) {
	for url, refused := range map[string]bool{
		"http://127.0.0.1:1": false, "http://localhost:1": false, "unix:///x": false, "https://0.0.0.0:1": false,
		"http://0.0.0.0:1": true, "http://:1": true, "http://192.168.1.1:1": true, "http://[2001:db8::1]:1": true,
	} {
		urls, err := listen.ParseURLs([]string{"http://127.0.0.1:7", url})
		if err != nil {
			t.Fatal(err)
		}
		err = listen.CheckPlaintext(urls)
		if errors.Is(err, listen.ErrPlaintext) != refused {
			t.Errorf("%s: got %v, want refused %v", url, err, refused)
		}
		if refused && !strings.Contains(err.Error(), url) {
			t.Errorf("%s is not named in %v", url, err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	u := listen.URL{Scheme: "unix", Address: path}
	first, err := u.Listen(t.Context(), listen.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", info.Mode(), err)
	}
	if _, err := u.Listen(t.Context(), listen.SocketOptions{}); err == nil {
		t.Fatal("a socket in use was taken over")
	}
	// A killed process leaves a socket file on which nothing listens.
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := u.Listen(t.Context(), listen.SocketOptions{})
	if err != nil {
		t.Fatalf("an abandoned socket blocks the address: %v", err)
	}
	if got := u.Bound(second).String(); got != "unix://"+path {
		t.Errorf("bound to %s", got)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	// A file that is not a socket stays.
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Listen(t.Context(), listen.SocketOptions{}); err == nil {
		t.Error("a plain file was replaced")
	}
}

func TestBoundReportsThePort(t *testing.T) {
	u := listen.URL{Scheme: "http", Address: "127.0.0.1:0"}
	l, err := u.Listen(t.Context(), listen.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := u.Bound(l); got.Address != l.Addr().String() || got.Scheme != "http" {
		t.Errorf("got %s, listening on %s", got, l.Addr())
	}
}
