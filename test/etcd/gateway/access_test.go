package gateway

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Flags that both servers have decide what browsers may do and which hosts are served.
func TestSameAccess(t *testing.T) {
	const listed, other = "http://a.example:80", "http://b.example:80"
	for name, flags := range map[string][]string{
		"open":   {"--host-whitelist", "*", "--cors", "*"}, // etcd's defaults
		"listed": {"--cors", listed, "--host-whitelist", "127.0.0.1,c.example"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := append([]string{"--unsafe-no-fsync"}, flags...)
			etcd, target := servers.Etcd(t, flags...), servers.Target(t, flags...)
			for _, method := range []string{http.MethodOptions, http.MethodGet} {
				for _, origin := range []string{"", listed, other} {
					for _, host := range []string{"", "c.example", "c.example:123", "d.example:123"} {
						want := ask(t, etcd.ClientURL(), method, origin, host)
						if got := ask(t, target.ClientURL(), method, origin, host); !slices.Equal(got, want) {
							t.Errorf("%s from %q to host %q: %q, want %q", method, origin, host, got, want)
						}
					}
				}
			}
		})
	}
}

// ask returns the status of an answer and what it allows other origins to do.
func ask(t *testing.T, url, method, origin, host string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := []string{resp.Status}
	for _, name := range []string{"Methods", "Origin", "Headers"} {
		answer = append(answer, resp.Header.Values("Access-Control-Allow-"+name)...)
	}
	return answer
}
