package listen_test

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

func TestCheckAdvertised(t *testing.T) {
	for url, good := range map[string]bool{
		"http://127.0.0.1:2379": true, "https://etcd.example:2379": true, " http://[::1]:1": true,
		"unix:///run/s": true, "unixs://localhost:1": true,
		"junk": false, "": false, "etcd.example:2379": false, "http://etcd.example": false,
		"http://etcd.example:":       false,
		"http://etcd.example:65536":  false,
		"http://etcd.example:1/path": false, "ftp://etcd.example:1": false, "http://a b:1": false,
	} {
		if err := listen.CheckAdvertised([]string{"http://first:1", url}); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Clients get this machine's address, which is one of its interfaces', instead of a wildcard.
func TestAdvertised(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	mine := func(host string) bool {
		return slices.ContainsFunc(addresses, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.String() == host
		})
	}
	given := []string{
		"http://0.0.0.0:1", "https://[::]:2", "http://:3", "http://127.0.0.1:4", "http://localhost:5", "unix:///run/s",
		"http://[::1]:6",
	}
	got := listen.Advertised(given)
	if !slices.Equal(got[3:], given[3:]) {
		t.Errorf("%v became %v", given[3:], got[3:])
	}
	for i, wildcard := range []string{"0.0.0.0", "::", ""} {
		if listen.OutgoingAddress(wildcard) == "" { // without a route to others
			if got[i] != given[i] || !listen.Wildcard(got[i]) {
				t.Errorf("%s became %s", given[i], got[i])
			}
			continue
		}
		u, err := url.Parse(got[i])
		if err != nil || listen.Wildcard(got[i]) || !mine(u.Hostname()) || u.Port() != strconv.Itoa(i+1) {
			t.Errorf("%s became %s", given[i], got[i])
		}
	}
}
