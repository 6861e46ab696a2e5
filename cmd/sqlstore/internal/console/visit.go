package console

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/session"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// visit is what the console knows about the user of a request.
type visit struct {
	session *session.Session              // nil without one
	caller  atomic.Pointer[auth.Identity] // whom the API has served; nil before it has
}

type visitKey struct{}

// visited returns the request with what is known about its user. Credentials that a program sends with the request take
// precedence over a session.
func (c *Console) visited(r *http.Request) *http.Request {
	v := &visit{}
	ctx := auth.Reporting(r.Context(), v.report)
	if r.Header.Get("Authorization") == "" {
		if v.session = c.sessions.Find(sessionKey(r), active(r)); v.session != nil {
			ctx = auth.With(ctx, v.session.Identity)
		}
	}
	return r.WithContext(context.WithValue(ctx, visitKey{}, v))
}

// visitOf returns what is known about the user of a request.
func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// active reports whether a user made the request, rather than a page by itself.
func active(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return mode == "" || mode == "navigate"
}

// report records whom the API has served.
func (v *visit) report(id auth.Identity) { v.caller.Store(&id) }

// user returns the name of the user, "" if there is none. A page that asks the API for nothing that needs a user shows
// that of the session.
func (v *visit) user() string {
	if caller := v.caller.Load(); caller != nil {
		return caller.User
	}
	if v.signedIn() {
		return v.session.Identity.User
	}
	return ""
}

// userOf returns who has sent a request that the API has answered, "" if there are no users.
func userOf(r *http.Request) string { return visitOf(r).user() }

// signedIn reports whether the user has a session.
func (v *visit) signedIn() bool { return v.session != nil && !v.session.Ended() }

// settle ends the session if the API has refused it, or has served nobody: authentication is disabled.
func (c *Console) settle(v *visit, refused bool) {
	caller := v.caller.Load()
	if v.session != nil && (refused || caller != nil && *caller == (auth.Identity{})) {
		c.sessions.End(v.session)
	}
}

// fromBrowser reports whether a browser made the request.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") != "" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

// navigates reports whether a browser will show the answer.
func navigates(r *http.Request) bool { return fromBrowser(r) && active(r) }
