package listen

import (
	"net"
	"net/url"
	"strings"
)

// Advertised returns listen URLs for clients: with this machine's address in the place of a wildcard such as 0.0.0.0,
// and the URL as it is if there is no such address.
func Advertised(urls []string) []string {
	out := make([]string, 0, len(urls))
	for _, s := range urls {
		if u, wildcard := parseWildcard(s); wildcard {
			if address := OutgoingAddress(u.Hostname()); address != "" {
				u.Host = net.JoinHostPort(address, u.Port())
				s = u.String()
			}
		}
		out = append(out, s)
	}
	return out
}

// Wildcard reports whether a URL's host is a wildcard, which clients on other machines cannot connect to.
func Wildcard(s string) bool {
	_, wildcard := parseWildcard(s)
	return wildcard
}

// parseWildcard takes a URL without a host, such as http://:2379, for a wildcard, as listeners do.
func parseWildcard(s string) (u *url.URL, wildcard bool) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme == "unix" || u.Scheme == "unixs" {
		return nil, false
	}
	ip := net.ParseIP(u.Hostname())
	return u, u.Hostname() == "" || ip != nil && ip.IsUnspecified()
}

// OutgoingAddress returns the address from which this machine would connect to others, or "" if it has no route to
// them. The wildcard 0.0.0.0 stands for IPv4 alone, the others for both.
func OutgoingAddress(wildcard string) string {
	// Addresses for documentation; nothing is sent.
	to := [][2]string{{"udp4", "192.0.2.1:9"}, {"udp6", "[2001:db8::1]:9"}}
	if wildcard == "0.0.0.0" {
		to = to[:1]
	}
	for _, t := range to {
		conn, err := net.Dial(t[0], t[1])
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		if err == nil {
			return host
		}
	}
	return ""
}
