package durability

import (
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/sqlstoretest"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// A check that cannot fail proves nothing: the server is right, and each change makes what clients recorded wrong.
func TestVerifyNotices(t *testing.T) {
	type sender = func(history.Op) *history.Op
	first := func(r *Record, kind history.Kind) *history.Op {
		for _, o := range r.Ops() {
			if o.Kind == kind && o.Outcome == history.Done {
				return o
			}
		}
		t.Fatalf("no %v is done", kind)
		return nil
	}
	spoilBase := func(r *Record, _ sender) {
		e := r.Base["t/0/a"]
		e.Version++
		r.Base.Apply(e)
	}
	for name, c := range map[string]struct {
		change func(*Record, sender)
		want   string // in the error
	}{
		"order":    {spoilBase, "does not follow"},
		"previous": {spoilBase, "the version before"},
		"write":    {func(r *Record, _ sender) { first(r, history.Put).Value = "other" }, "is not of the write"},
		"answer":   {func(r *Record, _ sender) { first(r, history.List).Found = nil }, "the history has"},
		"read before it was sent": {func(r *Record, do sender) {
			put := do(history.Op{Kind: history.Put, Keys: []string{"k/new"}})
			do(history.Op{Kind: history.Get, Keys: put.Keys})
			put.Outcome, put.Revision, put.Start = history.Unknown, 0, r.Now()
		}, "is not linearizable"},
		"revocation": {func(r *Record, _ sender) {
			o := first(r, history.Revoke)
			r.End(o, func(o *history.Op) { o.Revision = 1 })
			o.Revision = 0 // it is not an answer
		}, "was revoked by revision 1"},
		"held lease": {func(r *Record, _ sender) { r.Granted(99, leaseTTL, 1) }, "lease 99 was granted"},
		"watch":      {func(r *Record, _ sender) { r.watchers[0].prefix = "t/0/" }, "watch of \"t/0/\": event"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := strings.TrimPrefix(sqlstoretest.Start(t).Endpoints()[0], "http://")
			conn, err := dial(endpoint)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r := New()
			r.Pad = 100
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			must(r.Watch(t.Context(), endpoint, "t/"))
			load := Load{Endpoints: []string{endpoint}, Seed: 1, Clients: 4, Steps: 40}
			must(load.Run(t.Context(), r))
			must(r.Verify(t.Context(), endpoint))
			must(load.Run(t.Context(), r))
			c.change(r, func(op history.Op) *history.Op {
				o, err := r.Do(t.Context(), conn, op)
				must(err)
				return o
			})
			if err := r.Verify(t.Context(), endpoint); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify returns %.300v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestDamagedValues(t *testing.T) {
	r := Record{Pad: 100}
	right := r.value("w7")
	if got := r.known(right); got != "w7" || len(right) < 5 {
		t.Fatalf("a right value of %d bytes is %q", len(right), got)
	}
	for _, wrong := range []string{"", "w7", "w8" + string(right[2:]), string(right[1:]), string(right) + "."} {
		if got := r.known([]byte(wrong)); got == "w7" {
			t.Errorf("%q counts as right", wrong)
		}
	}
}
