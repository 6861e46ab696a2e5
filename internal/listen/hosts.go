package listen

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// Hosts guards HTTP without TLS against DNS rebinding: if an attacker's host name resolves to this machine, the
// attacker's web page has the same origin as this server, and only the Host header reveals it. gRPC needs no such
// guard, because no browser speaks HTTP/2 without TLS.
type Hosts struct {
	// Besides makes the whitelist add to the default hosts.
	Besides bool

	// whitelist and advertised are normalized by hostname.
	whitelist  []string // "*": all; empty: over the loopback interface, those that no attacker can own
	advertised []string // host names in the advertised client URLs, and the machine's
	next       http.Handler
}

// NewHosts guards next with the configured hosts, those in the advertised URLs, and the name of the machine, which no
// attacker can own either.
func NewHosts(whitelist, advertised []string, next http.Handler) *Hosts {
	h := &Hosts{next: next}
	for _, name := range whitelist {
		h.whitelist = append(h.whitelist, hostname(strings.TrimSpace(name)))
	}
	for _, raw := range advertised {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
			h.advertised = append(h.advertised, hostname(u.Host))
		}
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		h.advertised = append(h.advertised, hostname(name))
	}
	return h
}

// ServeHTTP implements [http.Handler].
func (h *Hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if host := hostname(r.Host); r.TLS == nil && !h.serves(host, rebindable(r)) {
		http.Error(w,
			fmt.Sprintf("sqlstore does not serve the host %q without TLS: name it in %s, or use https",
				host, setting.Name("HostWhitelist")),
			http.StatusMisdirectedRequest)
		return
	}
	h.next.ServeHTTP(w, r)
}

// serves reports whether a host may be served without TLS.
func (h *Hosts) serves(host string, rebindable bool) bool {
	switch {
	case slices.Contains(h.whitelist, "*") || named(h.whitelist, host):
		return true
	case len(h.whitelist) > 0 && !h.Besides:
		return false
	case !rebindable:
		return true
	}
	// Only names can be rebound, and browsers send one with each request.
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost") || named(h.advertised, host)
}

func named(list []string, host string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, host) })
}

// hostname returns the host of a Host header, an :authority or a setting, without the port, the brackets of an IPv6
// address, and the trailing dot of a fully qualified name.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else if h, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(h, "]")
	}
	return strings.TrimSuffix(host, ".")
}

// CheckHosts refuses what is no host in a whitelist. Hosts are compared as a whole, so a pattern would match nothing,
// and the operator would think that it does.
func CheckHosts(whitelist []string) error {
	for _, entry := range whitelist {
		switch host := hostname(strings.TrimSpace(entry)); {
		case host == "*" && strings.TrimSpace(entry) == "*":
		case strings.Contains(entry, "*"):
			return fmt.Errorf("%q is a pattern, and hosts are compared as a whole: name each host, or allow all with *",
				entry)
		case host == "" || strings.ContainsAny(host, " /\\@?#") || strings.Contains(entry, "/"):
			return fmt.Errorf("%q is no host: write a host name or an IP address, with or without a port", entry)
		}
	}
	return nil
}

type loopbackKey struct{}

// WithLoopback records in the context of a listener's requests whether it is bound to the loopback interface.
func WithLoopback(l net.Listener) context.Context {
	return context.WithValue(context.Background(), loopbackKey{}, isLoopback(l.Addr()))
}

// AsLoopback returns a context that has any listener guarded like one on the loopback interface.
func AsLoopback() context.Context {
	return context.WithValue(context.Background(), loopbackKey{}, true)
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onLoopback reports whether a request came over the loopback interface, also to a listener on all interfaces.
func onLoopback(r *http.Request) bool {
	arrived, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return bound(r) || isLoopback(arrived)
}

// bound reports whether the listener of a request is on the loopback interface.
func bound(r *http.Request) bool {
	on, _ := r.Context().Value(loopbackKey{}).(bool)
	return on
}

// rebindable reports whether a page under a rebound name may have sent a request. On a listener that InsecurePlaintext
// allows, other programs may use any name, as in etcd. No browser can reach a unix socket.
func rebindable(r *http.Request) bool { return bound(r) || onLoopback(r) && byBrowser(r) }

// byBrowser reports whether a browser may have sent a request. A page's request to its own origin has no Origin if it
// only reads, and no Sec-Fetch headers under a name without TLS. But pages cannot leave Accept-Language out.
func byBrowser(r *http.Request) bool {
	for name := range r.Header {
		if name == "Origin" || name == "Accept-Language" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}
