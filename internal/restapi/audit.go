package restapi

import (
	"log/slog"
	"net/http"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/store"
)

// namedIn says what the name in a path is, as in the entries of etcd's API.
var namedIn = map[kind]string{aLease: "lease", aUser: "name", aRole: "role"}

// report writes the request to the audit log: a watch when its answer begins, others when it is complete. Every request
// with a password is a login; those that fail belong to the level of writes.
func (c *call) report() {
	if c.op == nil || c.to.kind == theOpenAPI || c.reported ||
		!c.s.o.Audit.Wants(c.r.Method == http.MethodPut || c.r.Method == http.MethodDelete || c.failedLogin != "") {
		return
	}
	c.reported = true
	e := &audit.Entry{
		User: c.caller, Address: c.r.RemoteAddr, Call: "objects/" + c.op.id, Key: c.to.key, Revision: c.revision,
		Outcome: audit.OK,
	}
	e.CN, _ = c.commonName()
	if c.to.kind == aCollection || c.to.kind == aTree {
		e.End = store.PrefixEnd(c.to.key)
	}
	what, named := namedIn[c.to.kind]
	switch {
	case c.failedLogin != "":
		e.Details = []slog.Attr{slog.String("name", c.failedLogin)}
	case named:
		e.Details = []slog.Attr{slog.String(what, c.to.name)}
	}
	switch {
	case c.problem != nil:
		e.Outcome = c.problem.Reason + ": " + c.problem.Message
	case c.code == 0 || c.code == codeClientClosedRequest:
		e.Outcome = "Canceled: the client disconnected"
	}
	c.s.o.Audit.Add(e)
}
