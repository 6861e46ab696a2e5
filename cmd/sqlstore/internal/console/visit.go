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
	header  bool                          // credentials came with the request
	caller  atomic.Pointer[auth.Identity] // whom the API has served; nil before it has
}

type visitKey struct{}

// visited returns the request with what is known about its user. Credentials that a program sends with the request take
// precedence over a session. They are checked once, and here, where the request holds no slot: an attempt may have to
// wait because others have failed. Errors: [*failure] if they are wrong.
func (c *Console) visited(r *http.Request) (*http.Request, error) {
	v := &visit{}
	ctx := context.WithValue(auth.Reporting(r.Context(), v.report), visitKey{}, v)
	if r.Header.Get("Authorization") == "" {
		if v.session = c.session(r); v.session != nil {
			ctx = auth.With(ctx, v.session.Identity)
		}
		return r.WithContext(ctx), nil
	}
	v.header = true
	r = r.WithContext(ctx)
	var status struct{}
	switch err := c.api.get(r, authPath, nil, &status); {
	case is(err, http.StatusUnauthorized), is(err, http.StatusTooManyRequests):
		return r, err
	case err != nil: // nothing is known while the database is away
		return r, nil //nolint:nilerr // what the page asks for has the same error
	}
	if caller := v.caller.Load(); caller != nil && *caller != (auth.Identity{}) {
		r = r.Clone(auth.With(ctx, *caller))
		r.Header.Del("Authorization")
	}
	return r, nil
}

// mostCookies is how many cookies of its name the console looks at.
const mostCookies = 4

// session returns the session of a request, nil if it has none. Other servers of the host can set cookies of any name,
// so those without a session do not count, and none of two with one.
func (c *Console) session(r *http.Request) (found *session.Session) {
	for i, cookie := range r.CookiesNamed(cookieName(r)) {
		s := c.sessions.Find(cookie.Value, active(r))
		if i >= mostCookies || s != nil && found != nil {
			return nil
		}
		if s != nil {
			found = s
		}
	}
	return found
}

// stranger reports whether nobody knows who has sent a request, although authentication is enabled.
func (c *Console) stranger(r *http.Request) bool {
	v := visitOf(r)
	var status struct {
		Enabled bool `json:"enabled"`
	}
	if v.session != nil || c.api.get(r, authPath, nil, &status) != nil || !status.Enabled {
		return false
	}
	caller := v.caller.Load()
	return caller == nil || *caller == (auth.Identity{})
}

// visitOf returns what is known about the user of a request.
func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// active reports whether a user made the request, rather than a page by itself. Browsers do not send the mode to plain
// HTTP under a name.
func active(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return mode == "navigate" || mode == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
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

// maySignIn reports whether there is a login for the user of a page, which may know that authentication is enabled.
// Otherwise only a caller with a name shows that.
func (v *visit) maySignIn(enabled bool) bool {
	return !v.signedIn() && !v.header && (enabled || v.user() != "")
}

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
