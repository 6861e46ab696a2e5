package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/session"
	"github.com/sqlstore/sqlstore/internal/auth"
)

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	// mostCredentials bounds the form with a name and a password.
	mostCredentials = 16 << 10
)

// login is the data of the page that asks for a user and password.
type login struct {
	Name, Next string
	Wrong      string // why the last attempt failed, "" before the first
}

// loginFor returns the view that leads to the login, and from there to what a request is for.
func loginFor(r *http.Request) view {
	next := cameFor(r)
	if next == "/" {
		next = ""
	}
	return view{to: link(loginPath, "next", next)}
}

// askLogin shows the login. Who needs none is led on.
func (c *Console) askLogin(w http.ResponseWriter, r *http.Request) {
	if err := readForm(r, mostCredentials); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	next, v := returnTo(q.Get("next")), visitOf(r)
	var status struct {
		Enabled bool `json:"enabled"`
	}
	err := c.api.get(r, authPath, nil, &status)
	c.settle(v, is(err, http.StatusUnauthorized))
	switch {
	case err != nil && !is(err, http.StatusUnauthorized):
		c.answer(w, r, view{}, err)
		return
	case err == nil && (!status.Enabled || v.signedIn()):
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	// A browser that a link of another site leads here does not send the cookie, but does when this page leads it on.
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !q.Has("again") {
		w.Header().Set("Refresh", "0; url="+link(loginPath, "next", next, "again", "1"))
	}
	c.answer(w, r, login{Next: next}.view(), nil)
}

func (l login) view() view { return view{page: "login", title: "Sign in", data: l} }

// login checks a name and a password, and begins a session. It takes no slot: attempts wait for the limits of failed
// ones.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if err := readForm(r, mostCredentials); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l := login{Name: r.PostForm.Get("name"), Next: returnTo(r.PostForm.Get("next"))}
	id, err := c.authenticate(r, l.Name, r.PostForm.Get("password"))
	f, failed := errors.AsType[*failure](err)
	switch {
	case err == nil:
	case failed && f.Code == http.StatusUnauthorized:
		l.Wrong = "The user does not exist, or the password is wrong."
	case failed && f.Code == http.StatusTooManyRequests:
		l.Wrong = "Too many attempts have failed. Wait a minute, and try again."
	default:
		c.answer(w, r, view{}, err)
		return
	}
	if l.Wrong != "" {
		v := l.view()
		v.code = f.Code
		f.challenge(w, r)
		c.answer(w, r, v, nil)
		return
	}
	if old := visitOf(r).session; old != nil {
		c.sessions.End(old)
	}
	if id != (auth.Identity{}) { // or authentication has been disabled meanwhile
		key, _ := c.sessions.Begin(id)
		setSessionKey(w, r, key)
		c.log.Info("console: a user has signed in", "user", id.User, "address", r.RemoteAddr)
	}
	http.Redirect(w, r, l.Next, http.StatusSeeOther)
}

// authenticate returns the identity of a user with a password, the zero Identity while authentication is disabled.
// Errors: [*failure].
func (c *Console) authenticate(r *http.Request, name, password string) (id auth.Identity, err error) {
	ask := r.WithContext(auth.Reporting(r.Context(), func(caller auth.Identity) { id = caller }))
	ask.Header = http.Header{}
	ask.SetBasicAuth(name, password)
	var status struct{}
	err = c.api.get(ask, authPath, nil, &status)
	return id, err
}

// logout ends the session.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if err := readForm(r, mostCredentials); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s := visitOf(r).session; s != nil {
		c.sessions.End(s)
		c.log.Info("console: a user has signed out", "user", s.Identity.User, "address", r.RemoteAddr)
	}
	setSessionKey(w, r, "")
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

// stayWhile ends the session of a stream once the API accepts it no more, or authentication is disabled. Until ctx ends
// it asks from time to time: a stream that has nothing to send, or nothing that needs a right, does not.
func (c *Console) stayWhile(ctx context.Context, r *http.Request, s *session.Session) {
	tick := time.NewTicker(c.checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var caller auth.Identity
		ask := r.WithContext(auth.Reporting(ctx, func(id auth.Identity) { caller = id }))
		var status struct{}
		err := c.api.get(ask, authPath, nil, &status)
		if is(err, http.StatusUnauthorized) || is(err, http.StatusForbidden) ||
			err == nil && caller == (auth.Identity{}) {
			c.sessions.End(s)
			return
		}
	}
}
