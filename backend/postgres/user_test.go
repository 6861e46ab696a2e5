package postgres

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// user is an ordinary user who owns a database.
type user struct {
	name  string
	dsn   string // of the database, as the user
	admin string // of the database, as the one who may change the user
}

// userOf makes a user who owns the database of dsn. Both are dropped when the test ends.
func userOf(t *testing.T, dsn string) user {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	own := user{name: "user_" + strings.ToLower(rand.Text()[:12]), admin: dsn}
	admin(t, dsn, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'p'; ALTER DATABASE %q OWNER TO %[1]s; "+
		"GRANT ALL ON SCHEMA public TO %[1]s", own.name, strings.Trim(u.Path, "/")))
	t.Cleanup(func() {
		admin(t, dsn, fmt.Sprintf("REASSIGN OWNED BY %s TO CURRENT_USER; DROP OWNED BY %[1]s; DROP ROLE %[1]s",
			own.name))
	})
	u.User = url.UserPassword(own.name, "p")
	own.dsn = u.String()
	return own
}

// alter changes the user.
func (u user) alter(t *testing.T, how string) {
	t.Helper()
	admin(t, u.admin, "ALTER ROLE "+u.name+" "+how)
}

// limit limits the user's connections.
func (u user) limit(t *testing.T, n int) {
	t.Helper()
	u.alter(t, fmt.Sprintf("CONNECTION LIMIT %d", n))
}

// sessions returns how many connections the user has.
func (u user) sessions(t *testing.T) (n int) {
	t.Helper()
	admin(t, u.admin, "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+u.name+"'", &n)
	return n
}
