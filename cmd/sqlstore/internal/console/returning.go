package console

import (
	"net/http"
	"net/url"
	"strings"
)

// mostReturn is the longest address to return to after the login: it is part of another one.
const mostReturn = 4 << 10

// returnTo returns an address of the console that a request names, or "/". Browsers take a second slash, and
// backslashes, for the beginning of a host name, and drop control characters.
func returnTo(address string) string {
	u, err := url.Parse(address)
	if err != nil || len(address) > mostReturn || !strings.HasPrefix(address, "/") || u.Scheme != "" || u.Host != "" ||
		u.Opaque != "" || u.User != nil || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsFunc(u.Path, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return "/"
	}
	if u.Path == loginPath {
		return "/"
	}
	q := u.Query()
	q.Del("reveal") // which is for those who ask for it, rather than for a link that led to the login
	to := url.URL{Path: u.Path, RawQuery: q.Encode()}
	return to.String()
}

// cameFor returns what to show after the login for a request that needs one. A form is not sent again: its user looks
// at the key, or at the page, first.
func cameFor(r *http.Request) string {
	switch {
	case r.Method != http.MethodPost || r.URL.Path == "/top":
		return returnTo(r.URL.RequestURI())
	case r.URL.Query().Get("key") != "":
		return returnTo(link("/object", "key", r.URL.Query().Get("key")))
	}
	return "/"
}
