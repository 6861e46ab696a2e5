package console

import (
	"net"
	"net/http"
	"strconv"
)

// cookieName returns the name of the cookie that holds the key of a session. Browsers send a cookie to all ports of a
// host, so the name has the port: consoles on one machine do not log their users out of each other. Over TLS, its
// prefix makes browsers refuse the cookie from other hosts of the domain, and from plain HTTP.
func cookieName(r *http.Request) string {
	name := "sqlstore"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			name += "-" + strconv.FormatUint(n, 10)
		}
	}
	if r.TLS != nil {
		return "__Host-" + name
	}
	return name
}

// setSessionKey gives the browser the key of a session until it is closed; "" removes it.
func setSessionKey(w http.ResponseWriter, r *http.Request, key string) {
	k := &http.Cookie{
		Name: cookieName(r), Value: key, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	}
	if key == "" {
		k.MaxAge = -1
	}
	http.SetCookie(w, k)
}
