package audit

import (
	"log/slog"
	"time"
)

// Entry is what the log says about a call. Empty fields are left out.
type Entry struct {
	// User is who called, CN the common name of the client's certificate, Address where the client is.
	User, CN, Address string
	// Call is the method.
	Call string
	// Key and End are the range that the call names.
	Key, End []byte
	// Operations are those of a transaction.
	Operations []Operation
	// Details name what else the call is about: the user and the role of a change of rights, the id of a lease.
	Details []slog.Attr
	// Revision is that of the answer.
	Revision int64
	// Outcome is "OK", or the error as the client sees it.
	Outcome string

	at time.Time
}

// OK is the outcome of a call without an error.
const OK = "OK"

// Operation is a part of a transaction.
type Operation struct {
	// Branch is compare, success or failure.
	Branch   string
	Call     string
	Key, End []byte
}

// object is the operation in the log.
func (o Operation) object() map[string]any {
	out := map[string]any{"branch": o.Branch}
	if o.Call != "" {
		out["call"] = o.Call
	}
	for name, b := range map[string][]byte{"key": o.Key, "range_end": o.End} {
		if b != nil {
			a := text(name, b)
			out[a.Key] = a.Value.Any()
		}
	}
	return out
}

func (e *Entry) record() slog.Record {
	r := slog.NewRecord(e.at, slog.LevelInfo, "audit", 0)
	add := func(name, value string) {
		if value != "" {
			r.AddAttrs(text(name, []byte(value)))
		}
	}
	add("user", e.User)
	add("cn", e.CN)
	add("address", e.Address)
	add("call", e.Call)
	if e.Key != nil {
		r.AddAttrs(text("key", e.Key))
	}
	if e.End != nil {
		r.AddAttrs(text("range_end", e.End))
	}
	if len(e.Operations) > 0 {
		list := make([]map[string]any, len(e.Operations))
		for i, o := range e.Operations {
			list[i] = o.object()
		}
		r.AddAttrs(slog.Any("operations", list))
	}
	for _, a := range e.Details {
		if a.Value.Kind() == slog.KindString {
			a = text(a.Key, []byte(a.Value.String()))
		}
		r.AddAttrs(a)
	}
	if e.Revision != 0 {
		r.AddAttrs(slog.Int64("revision", e.Revision))
	}
	add("outcome", e.Outcome)
	return r
}
