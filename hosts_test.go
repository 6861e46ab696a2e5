package sqlstore_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// askAs returns the status of a GET with this Host header, and others in lines of their own; "" sends none, which only
// HTTP/1.0 allows.
func askAs(t *testing.T, url, path, host string, others ...string) int {
	t.Helper()
	scheme, address, _ := strings.Cut(url, "://")
	network := "tcp"
	if scheme == "unix" {
		network = "unix"
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- any server will do
	}
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", path, host,
		strings.Join(append(others, "Connection: close"), "\r\n"))
	if host == "" {
		request = fmt.Sprintf("GET %s HTTP/1.0\r\n\r\n", path)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// A request for a host name that resolves to the loopback interface (DNS rebinding) is refused for every path.
func TestHostsOnTheLoopback(t *testing.T) {
	var log logged
	s, _ := start(t, sqlstore.Config{
		Logger:              slog.New(slog.NewTextHandler(&log, nil)),
		ListenClientURLs:    []string{"http://127.0.0.1:0"},
		ListenMetricsURLs:   []string{"http://127.0.0.1:0"},
		ListenObjectsURLs:   []string{"http://127.0.0.1:0"},
		AdvertiseClientURLs: []string{"http://10.0.0.5:2379", "http://etcd.example:2379", "http://etcd2.example.:2379"},
		Profiling:           true,
	})
	_, metrics, _ := strings.Cut(log.String(), `msg="serving metrics" address=`)
	metrics, _, _ = strings.Cut(metrics, "\n")
	served := map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:2379": true, "[::1]": true, "[::1]:2379": true, "192.168.7.7:80": true,
		"[fe80::1%25eth0]:80": true,
		"localhost":           true, "localhost:80": true, "LocalHost.": true, "etcd.example": true,
		"ETCD.example:99": true,
		"etcd2.example":   true,
		"evil.example":    false, "evil.example:2379": false, "127.0.0.1.evil.example": false,
		"localhost.evil.example:80": false,
		"x.etcd.example":            false, "2130706433": false, "127.1": false, "[evil]": false, "a:b:c": false,
	}
	for host, want := range served {
		for url, path := range map[string]string{
			s.Endpoints()[0]: "/version", s.ObjectEndpoints()[0]: "/v1/objects/",
			"http://" + metrics: "/metrics",
		} {
			if code := askAs(t, url, path, host); (code == http.StatusOK) != want || !want &&
				code != http.StatusMisdirectedRequest {
				t.Errorf("%s%s as %q: %d, want it served: %v", url, path, host, code, want)
			}
		}
	}
}

// The listener and the configuration determine which hosts are served.
func TestHostsElsewhere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	for name, c := range map[string]struct {
		listen    string
		whitelist []string
		want      map[string]int
	}{
		"a unix socket":       {"unix://" + socket, nil, map[string]int{"evil.example": 200, "localhost": 200}},
		"beyond the loopback": {"http://0.0.0.0:0", nil, map[string]int{"etcd.example": 200, "127.0.0.1": 200}},
		"TLS":                 {"https://127.0.0.1:0", []string{"a.example"}, map[string]int{"etcd.example": 200}},
		"all":                 {"http://127.0.0.1:0", []string{"*"}, map[string]int{"evil.example": 200, "": 200}},
		"named": {"http://127.0.0.1:0", []string{"A.example"}, map[string]int{
			"a.example:1": 200,
			"127.0.0.1":   421, "localhost": 421, "": 421,
		}},
		"named otherwise": {
			"http://127.0.0.1:0",
			[]string{"example.com.", " B.example:80", "[::1]:2379"},
			map[string]int{
				"example.com": 200, "Example.COM.:2379": 200, "b.example.": 200, "b.example:9": 200, "[::1]": 200,
				"example.org": 421, "example.com..": 421,
			},
		},
		"named, not on the lo": {"http://0.0.0.0:0", []string{"a.example"}, map[string]int{
			"a.example": 200,
			"127.0.0.1": 421,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlstore.Start(t.Context(), sqlstore.Config{
				ListenClientURLs: []string{c.listen}, HostWhitelist: c.whitelist, InsecurePlaintext: true,
				TLS: certificates(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for host, want := range c.want {
				if code := askAs(t, s.Endpoints()[0], "/version", host); code != want {
					t.Errorf("as %q: %d, want %d", host, code, want)
				}
			}
		})
	}
}

// A browser that reaches a wildcard listener over the loopback interface is served only under names that cannot be
// rebound. Other programs may use any name.
func TestHostsOfBrowsersOnWildcards(t *testing.T) {
	for name, c := range map[string]struct {
		whitelist []string
		want      int
	}{"rebound": {nil, http.StatusMisdirectedRequest}, "listed": {[]string{"evil.example"}, http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			wildcard := []string{"http://[::]:0"}
			s, _ := start(t, sqlstore.Config{
				ListenClientURLs: wildcard, ListenObjectsURLs: wildcard, InsecurePlaintext: true,
				CORS: []string{listed}, HostWhitelist: c.whitelist,
			})
			for url, path := range map[string]string{
				s.Endpoints()[0]: "/version", s.ObjectEndpoints()[0]: "/v1/objects/",
			} {
				url = "http://127.0.0.1" + url[strings.LastIndex(url, ":"):]
				for _, header := range []string{
					"Origin: http://evil.example", "Origin: http://evil.example\r\nUpgrade: websocket",
					"Sec-Fetch-Site: same-origin", "Accept-Language: en",
				} {
					if code := askAs(t, url, path, "evil.example", header); code != c.want {
						t.Errorf("%s%s with %q: %d, want %d", url, path, header, code, c.want)
					}
				}
				if code := askAs(t, url, path, "evil.example", "User-Agent: curl/8"); code != http.StatusOK {
					t.Errorf("%s%s by another program: %d", url, path, code)
				}
				if c.whitelist != nil {
					continue
				}
				if machine, err := os.Hostname(); err != nil {
					t.Error(err)
				} else if code := askAs(t, url, path, machine, "Accept-Language: *"); code != http.StatusOK {
					t.Errorf("%s%s under the machine's name: %d", url, path, code)
				}
				host := strings.TrimPrefix(url, "http://")
				if code := askAs(t, url, path, host, "Origin: "+url); code != http.StatusOK {
					t.Errorf("%s%s by the server's own page: %d", url, path, code)
				}
			}
		})
	}
}
