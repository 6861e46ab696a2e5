package sqlstore

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// access guards HTTP on the client listeners as etcd does: browsers learn which origins may read the answers, and without
// TLS only known hosts are served, against DNS rebinding.
type access struct {
	origins, hosts []string // empty or with "*": all
	named          bool     // only origins that are named one by one; "*" is none
	next           http.Handler
}

func allows(list []string, s string) bool {
	return len(list) == 0 || slices.Contains(list, "*") || slices.Contains(list, s)
}

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host // no port
	}
	if r.TLS == nil && !allows(a.hosts, host) {
		http.Error(w, fmt.Sprintf("sqlstore does not serve the host %q without TLS: name it in --host-whitelist, or use https", host),
			http.StatusMisdirectedRequest)
		return
	}
	if origin, ok := a.shares(r.Header.Get("Origin")); ok {
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE")
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Headers", "accept, content-type, authorization")
	}
	if a.named {
		w.Header().Add("Vary", "Origin")
	}
	if r.Method == http.MethodOptions && (!a.named || w.Header().Get("Access-Control-Allow-Origin") != "") {
		w.WriteHeader(http.StatusOK)
		return
	}
	a.next.ServeHTTP(w, r)
}

// shares says whether pages of an origin may read the answer, and which origins to tell the browser.
func (a *access) shares(origin string) (told string, ok bool) {
	switch {
	case a.named:
		return origin, origin != "*" && slices.Contains(a.origins, origin)
	case allows(a.origins, "*"):
		return "*", true
	}
	return origin, allows(a.origins, origin)
}

// checkOrigins refuses what no browser sends as its origin.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return fmt.Errorf("%w: CORS origin %q is neither * nor of the form https://host:port", ErrConfig, o)
		}
	}
	return nil
}
