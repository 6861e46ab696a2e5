package listen

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// Origins tells browsers, as etcd does, which origins may read the answers. It also refuses what pages of other origins
// could do without reading the answer: open a websocket, or send requests that browsers send without a preflight.
type Origins struct {
	// Allowed are the origins whose pages may use the server; "*" allows all. If it is empty, plaintext over the
	// loopback interface is for the server's own origin: any page in a browser of this machine could connect.
	// Elsewhere, all origins are allowed.
	Allowed []string
	Named   bool // only listed origins; "*" allows none
	Next    http.Handler
}

// ServeHTTP implements [http.Handler].
func (o *Origins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	allowed, ok := o.shares(r)
	if ok {
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE")
		h.Set("Access-Control-Allow-Origin", allowed)
		h.Set("Access-Control-Allow-Headers", "accept, content-type, authorization")
		if o.Named { // the list/watch API has more headers than etcd
			h.Set("Access-Control-Allow-Headers", "accept, content-type, authorization, if-match, if-none-match")
			h.Set("Access-Control-Expose-Headers", "ETag")
		}
	}
	if o.Named {
		w.Header().Add("Vary", "Origin")
	}
	if !o.open(r) && !ok && origin != "" && acts(r) && !own(r, origin) {
		advice := "add it to " + setting.Name("CORS")
		if CheckOrigins([]string{origin}) != nil { // null, for a file or a sandboxed page, or a browser's extension
			advice = "serve the page over http or https, and add its origin to " + setting.Name("CORS")
		}
		http.Error(w, fmt.Sprintf("pages of the origin %q may not do this: %s", origin, advice), http.StatusForbidden)
		return
	}
	if r.Method == http.MethodOptions && (!o.Named || ok) {
		w.WriteHeader(http.StatusOK)
		return
	}
	o.Next.ServeHTTP(w, r)
}

// shares reports whether pages of an origin may read the answer, and which origins to name to the browser.
func (o *Origins) shares(r *http.Request) (allowed string, ok bool) {
	origin := r.Header.Get("Origin")
	switch {
	case o.Named:
		return origin, origin != "*" && slices.Contains(o.Allowed, origin)
	case o.open(r):
		return "*", true
	}
	return origin, slices.Contains(o.Allowed, origin)
}

// open reports whether every origin may send a request.
func (o *Origins) open(r *http.Request) bool {
	if len(o.Allowed) == 0 {
		return !o.Named && (r.TLS != nil || !onLoopback(r))
	}
	return !o.Named && slices.Contains(o.Allowed, "*")
}

// acts reports whether a request has an effect even if the page that sends it cannot read the answer. Websockets are
// included: CORS does not cover what they answer.
func acts(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return strings.Join(r.Header.Values("Upgrade"), "") != "" // any of them may name a websocket
	}
	return true
}

// own reports whether a page comes from the server itself, or from a proxy that serves under its name. [Hosts] refuses
// names that were rebound.
func own(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// CheckOrigins refuses origins that no browser sends. Patterns are none: an origin is compared as it is.
func CheckOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			u.Scheme+"://"+u.Host != o || strings.Contains(u.Host, "*") || strings.ToLower(o) != o) {
			return fmt.Errorf("the origin %q is neither * nor of the form https://host:port, in lower case and "+
				"without patterns", o)
		}
	}
	return nil
}
