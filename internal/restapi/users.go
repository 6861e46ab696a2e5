package restapi

import (
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/internal/auth"
)

// rightsOf returns the users and roles if rule lets the caller see what the request is about. Errors: those of rule, of
// ctx and of the backend.
func (c *call) rightsOf(rule func(*auth.State, auth.Identity) error) (*auth.State, error) {
	if err := c.refuseVersions(); err != nil {
		return nil, err
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	state, err := c.s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = rule(state, auth.From(ctx))
	}
	c.revision = c.s.engine.Revision()
	return state, because(ctx, err)
}

// auth answers whether callers need rights.
func (c *call) auth() error {
	state, err := c.rightsOf((*auth.State).Valid)
	if err != nil {
		return err
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"kind":"AuthStatus","apiVersion":"sqlstore/v1","enabled":`...)
	*b = append(strconv.AppendBool(*b, state.Enabled()), `,"authRevision":"`...)
	*b = append(strconv.AppendUint(*b, state.Revision(), 10), "\"}\n"...)
	return c.answer(http.StatusOK, *b)
}

// users answers with the users in order of their names.
func (c *call) users() error {
	after, err := c.opts.last("UserList")
	if err != nil {
		return err
	}
	state, err := c.rightsOf((*auth.State).IsAdmin)
	if err != nil {
		return err
	}
	return answerNamed(c, "UserList", after, state.Users(), func(u *auth.User) string { return u.Name },
		func(u *auth.User) int { return len(u.Name) + lengths(u.Roles) }, appendUser)
}

// user answers with one user.
func (c *call) user() error {
	state, err := c.rightsOf(func(s *auth.State, id auth.Identity) error { return s.CanSeeUser(id, c.to.name) })
	if err != nil {
		return err
	}
	u, ok := state.User(c.to.name)
	if !ok {
		return absent("user", c.to.name)
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = appendUser(append(*b, `{"kind":"User","apiVersion":"sqlstore/v1",`...), &u)
	*b = append(*b, '}', '\n')
	return c.answer(http.StatusOK, *b)
}

// appendUser appends the members of a user, without its password's hash.
func appendUser(b []byte, u *auth.User) []byte {
	b = appendString(append(b, `"name":`...), []byte(u.Name))
	b = append(b, `,"noPassword":`...)
	b = append(strconv.AppendBool(b, u.NoPassword), `,"roles":[`...)
	for i, role := range u.Roles {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, []byte(role))
	}
	return append(b, ']')
}

func lengths(names []string) (n int) {
	for _, name := range names {
		n += len(name)
	}
	return n
}
