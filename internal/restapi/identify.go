package restapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
)

// challenges are the ways to authenticate, for the answers that demand it.
var challenges = []string{`Basic realm="sqlstore", charset="UTF-8"`, `Bearer realm="sqlstore"`}

const (
	schemeBasic  = "basic"
	schemeBearer = "bearer"
)

// identify finds out who calls, by the request's Authorization, or else by its context if that has an identity, which
// only callers within the process can set, or else by the client's certificate. It refuses those whom nobody knows if
// callers need rights. The engine decides what they may do. Errors: 401, 429, those of the store.
func (c *call) identify() error {
	id, err := c.credentials(c.r.Context())
	if errors.Is(err, auth.ErrNotEnabled) {
		auth.Report(c.r.Context(), auth.Identity{})
		return nil // as in etcd, credentials do not matter then
	}
	if err != nil {
		return err
	}
	c.caller = id.User
	ctx := auth.With(c.r.Context(), id)
	if !c.op.open && c.s.engine.Auth().Known(id) != nil { // which may be out of date
		if err := c.s.engine.CheckUser(ctx); err != nil {
			return err
		}
	}
	auth.Report(ctx, id)
	if id != (auth.Identity{}) {
		c.r = c.r.WithContext(ctx)
	}
	return nil
}

// credentials returns who calls, the zero Identity without credentials.
func (c *call) credentials(ctx context.Context) (auth.Identity, error) {
	header := c.r.Header.Get("Authorization")
	if header == "" {
		if id := auth.From(ctx); id != (auth.Identity{}) {
			return c.within(ctx, id)
		}
		if name, ok := c.commonName(); ok && c.s.o.ClientCertAuth {
			return auth.ByCertificate(name), nil
		}
		return auth.Identity{}, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	switch strings.ToLower(scheme) {
	case schemeBasic:
		user, password, ok := c.r.BasicAuth()
		if !ok {
			return auth.Invalid, nil
		}
		id, err := c.s.o.Authenticator.Password(ctx, user, password, c.r.RemoteAddr)
		if errors.Is(err, auth.ErrFailed) || errors.Is(err, auth.ErrNoPassword) || errors.Is(err, authn.ErrThrottled) {
			c.failedLogin = authn.ShownUser(user)
		}
		return id, err
	case schemeBearer:
		return c.s.o.Authenticator.Token(ctx, strings.TrimSpace(token))
	}
	return auth.Invalid, nil
}

// within returns the identity of a caller within the process. Errors: [auth.ErrNotEnabled], those of the store.
func (c *call) within(ctx context.Context, id auth.Identity) (auth.Identity, error) {
	if c.s.engine.Auth().Enabled() {
		return id, nil // which the engine checks
	}
	state, err := c.s.engine.ConfirmAuth(ctx) // it may just have been enabled through another replica
	if err == nil && !state.Enabled() {
		err = auth.ErrNotEnabled
	}
	return id, err
}

// commonName returns the name in the client's certificate, if it has one.
func (c *call) commonName() (name string, ok bool) {
	if c.r.TLS == nil {
		return "", false
	}
	for _, chain := range c.r.TLS.VerifiedChains {
		if len(chain) > 0 {
			name := chain[0].Subject.CommonName
			return name, name != ""
		}
	}
	return "", false
}

// mayWatch refuses a watch of what the caller may not read before its answer begins.
func (w *watching) mayWatch(key, end []byte) error {
	if !w.s.engine.Auth().Enabled() {
		return nil // or the watch itself is refused
	}
	state, err := w.s.engine.ConfirmAuth(w.ctx)
	if err != nil {
		return err
	}
	return state.CanRead(auth.From(w.ctx), key, end)
}

// refusals map the reasons why a caller is refused to answers. The first match counts.
var refusals = []struct {
	from   error
	status func(c *call) *status
}{
	{auth.ErrPermissionDenied, (*call).forbidden},
	{auth.ErrUserNotFound, (*call).forbidden}, // of a certificate
	{auth.ErrUserEmpty, func(*call) *status {
		return unauthorized("authentication is enabled: send a user and password, a token, or a client certificate")
	}},
	{auth.ErrFailed, func(*call) *status { return unauthorized("the user does not exist, or the password is wrong") }},
	{auth.ErrNoPassword, func(*call) *status { return unauthorized("the user has no password to log in with") }},
	{auth.ErrInvalidToken, func(*call) *status { return unauthorized("the credentials are invalid, or have ended") }},
	{auth.ErrOldRevision, func(*call) *status {
		return unauthorized("users or roles have changed since the token was made: get a new one")
	}},
	{authn.ErrThrottled, func(*call) *status {
		return failure(http.StatusTooManyRequests, reasonTooMany, "too many failed logins: wait before the next one").
			retry(1)
	}},
}

// refusal returns the answer to a caller who is refused, nil for other errors.
func (c *call) refusal(err error) *status {
	for _, r := range refusals {
		if errors.Is(err, r.from) {
			st := r.status(c)
			if st.Code == http.StatusUnauthorized {
				c.w.Header()["Www-Authenticate"] = challenges
			}
			return st
		}
	}
	return nil
}

func unauthorized(message string) *status {
	return failure(http.StatusUnauthorized, reasonUnauthorized, message)
}

func (c *call) forbidden() *status {
	what := c.to.key
	if what == nil {
		what = []byte(c.r.URL.Path)
	}
	return failure(http.StatusForbidden, reasonForbidden,
		fmt.Sprintf("user %q may not %s %q", c.caller, c.verb, what)).named(what)
}
