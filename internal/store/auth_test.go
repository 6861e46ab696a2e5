package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// eachAuth runs f over every kind of database, where there can be several with three stores.
func eachAuth(t *testing.T, f func(t *testing.T, all []*Store)) {
	t.Run("sqlite", func(t *testing.T) { f(t, []*Store{openStore(t, openSQLite(t), Config{})}) })
	t.Run("sqlite without index", func(t *testing.T) {
		f(t, []*Store{openStore(t, openSQLite(t), Config{DisableIndex: true})})
	})
	t.Run("postgres", func(t *testing.T) { f(t, openReplicas(t, 3, Config{})) })
	t.Run("simulated", func(t *testing.T) {
		c := simdb.New(1, nil)
		var all []*Store
		for range 3 {
			b := c.Open()
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
			all = append(all, openStore(t, b, Config{DisableIndex: len(all) == 2}))
		}
		f(t, all)
	})
}

// byUser returns a context for calls of a user with a certificate.
func byUser(tb testing.TB, user string) context.Context {
	tb.Helper()
	return auth.With(within(tb), auth.ByCertificate(user))
}

// change makes changes as root.
func change(tb testing.TB, s *Store, changes ...auth.Change) {
	tb.Helper()
	for _, c := range changes {
		if _, err := s.ChangeAuth(byUser(tb, auth.Root), c); err != nil {
			tb.Fatalf("%#v: %v", c, err)
		}
	}
}

// permit gives a role a right to the keys with a prefix.
func permit(role string, kind auth.Kind, prefix string) auth.Change {
	return auth.GrantPermission{Role: role, Permission: auth.Permission{
		Kind: kind, Key: []byte(prefix), End: PrefixEnd([]byte(prefix)),
	}}
}

// enable enables authentication with the user root, and the user u who may read r/ and write w/.
func enable(tb testing.TB, s *Store) {
	tb.Helper()
	change(tb, s,
		auth.AddUser{Name: auth.Root, Hash: []byte("root")}, auth.GrantRole{User: auth.Root, Role: auth.Root},
		auth.AddUser{Name: "u", Hash: []byte("u")}, auth.AddRole{Name: "r"}, auth.GrantRole{User: "u", Role: "r"},
		permit("r", auth.Read, "r/"), permit("r", auth.Write, "w/"), auth.Enable{})
}

// last returns the last of the stores, which is another one than the first if there are several.
func last(all []*Store) *Store { return all[len(all)-1] }

// TestAuthCalls makes every call as nobody, as the user u, as root and as the server, through one store after another
// one has enabled authentication.
func TestAuthCalls(t *testing.T) {
	t.Parallel()
	eachAuth(t, func(t *testing.T, all []*Store) {
		put(t, all[0], "r/k", "v")
		lease := func(id int64, keys ...string) {
			if _, err := all[0].LeaseGrant(within(t), id, 3600); err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				p := &PutRequest{Key: []byte(key), Lease: id}
				if _, err := all[0].Put(within(t), p); err != nil {
					t.Fatal(err)
				}
			}
		}
		lease(1, "w/1")
		lease(2, "w/2", "x/2")
		lease(3, "r/3")
		lease(4)
		enable(t, all[0])
		s := last(all)
		one := func(op Op) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := s.Txn(ctx, &Txn{Success: []Op{op}})
				return err
			}
		}
		txn := func(x *Txn) func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Txn(ctx, x); return err }
		}
		read := func(r RangeRequest) func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Range(ctx, &r); return err }
		}
		key := func(k string) []byte { return []byte(k) }
		denied := auth.ErrPermissionDenied
		for _, c := range []struct {
			what string
			user error // what u gets; root gets nil
			call func(context.Context) error
		}{
			{"get", nil, read(RangeRequest{Key: key("r/k")})},
			{"get serializable", nil, read(RangeRequest{Key: key("r/k"), Serializable: true})},
			{"list", nil, read(RangeRequest{Key: key("r/"), End: key("r0"), Limit: 1})},
			{"list more", denied, read(RangeRequest{Key: key("r/"), End: key("r1")})},
			{"list from key", denied, read(RangeRequest{Key: key("r/"), End: []byte{0}, CountOnly: true})},
			{"get written", denied, read(RangeRequest{Key: key("w/1"), Serializable: true})},
			{"stream", nil, func(ctx context.Context) error {
				r := &RangeRequest{Key: key("r/"), End: key("r0")}
				_, err := s.RangeStream(ctx, r, func([]*Row, bool) error { return nil })
				return err
			}},
			{"stream more", denied, func(ctx context.Context) error {
				r := &RangeRequest{Key: key("r"), End: key("s"), Serializable: true}
				_, err := s.RangeStream(ctx, r, func([]*Row, bool) error { return nil })
				return err
			}},
			{"put", nil, one(Op{Put: &PutRequest{Key: key("w/p")}})},
			{"put elsewhere", denied, one(Op{Put: &PutRequest{Key: key("r/p")}})},
			{"put and return", denied, one(Op{Put: &PutRequest{Key: key("w/p"), PrevKV: true}})},
			{"put with lease", nil, one(Op{Put: &PutRequest{Key: key("w/p"), Lease: 1}})},
			{"put with lease of others", denied, one(Op{Put: &PutRequest{Key: key("w/p"), Lease: 2}})},
			{"delete", nil, one(Op{Delete: &DeleteRequest{Key: key("w/d"), End: key("w/e")}})},
			{"delete more", denied, one(Op{Delete: &DeleteRequest{Key: key("w/d"), End: key("w1")}})},
			{"delete and return", denied, one(Op{Delete: &DeleteRequest{Key: key("w/d"), PrevKV: true}})},
			{"read in txn", nil, one(Op{Range: &RangeRequest{Key: key("r/k")}})},
			{"read more in txn", denied, one(Op{Range: &RangeRequest{Key: key("w/k")}})},
			{"compare", denied, txn(&Txn{Compare: []Compare{{Key: key("w/k")}}})},
			{"compare and write", denied, txn(&Txn{
				Compare: []Compare{{Key: key("w/k")}}, Success: []Op{{Put: &PutRequest{Key: key("w/p")}}},
			})},
			{"branch not taken", denied, txn(&Txn{
				Compare: []Compare{{Key: key("r/k"), Target: CompareVersion, Number: 1}},
				Success: []Op{{Put: &PutRequest{Key: key("w/p")}}},
				Failure: []Op{{Put: &PutRequest{Key: key("r/p")}}},
			})},
			{"nested", denied, one(Op{Txn: &Txn{Success: []Op{{Txn: &Txn{
				Failure: []Op{{Delete: &DeleteRequest{Key: key("x")}}},
			}}}}})},
			{"nested and allowed", nil, one(Op{Txn: &Txn{
				Compare: []Compare{{Key: key("r/k")}}, Success: []Op{{Put: &PutRequest{Key: key("w/n")}}},
			}})},
			{"grant lease", nil, func(ctx context.Context) error {
				l, err := s.LeaseGrant(ctx, 0, 3600)
				if err == nil {
					_, err = s.LeaseRevoke(ctx, l.ID)
				}
				return err
			}},
			{"renew lease", nil, func(ctx context.Context) error { _, err := s.LeaseRenew(ctx, 1); return err }},
			{"renew others' lease", denied, func(ctx context.Context) error {
				_, err := s.LeaseRenew(ctx, 2)
				return err
			}},
			{"time to live", nil, func(ctx context.Context) error {
				_, _, err := s.LeaseTimeToLive(ctx, 2, false)
				return err
			}},
			{"keys of lease", nil, func(ctx context.Context) error {
				_, _, err := s.LeaseTimeToLive(ctx, 3, true)
				return err
			}},
			{"keys of others' lease", denied, func(ctx context.Context) error {
				_, _, err := s.LeaseTimeToLive(ctx, 2, true)
				return err
			}},
			{"leases", denied, func(ctx context.Context) error { _, err := s.Leases(ctx); return err }},
			{"revoke others' lease", denied, func(ctx context.Context) error {
				_, err := s.LeaseRevoke(ctx, 2)
				if errors.Is(err, ErrLeaseNotFound) {
					return nil // somebody else who may has done it
				}
				return err
			}},
			{"compact", denied, func(ctx context.Context) error {
				_, err := s.Compact(ctx, s.Revision(), false)
				if errors.Is(err, ErrCompacted) {
					return nil
				}
				return err
			}},
			{"read alarms", nil, func(ctx context.Context) error { _, err := s.ReadAlarms(ctx); return err }},
			{"raise alarm", denied, func(ctx context.Context) error {
				return s.RaiseAlarm(ctx, Alarm{Member: 9, Kind: 7})
			}},
			{"clear alarm", denied, func(ctx context.Context) error {
				_, err := s.ClearAlarm(ctx, Alarm{Member: 9, Kind: 7})
				return err
			}},
			{"defragment", denied, func(ctx context.Context) error { return s.Defragment(ctx) }},
			{"export", denied, func(ctx context.Context) error {
				x, err := s.Export(ctx)
				if err == nil {
					if !x.Auth.Enabled() {
						return errors.New("an export without users")
					}
					x.Close()
				}
				return err
			}},
			{"change users", denied, func(ctx context.Context) error {
				_, err := s.ChangeAuth(ctx, auth.Enable{})
				return err
			}},
			{"check admin", denied, s.CheckAdmin},
			{"check user", nil, s.CheckUser},
			{"watch", nil, func(ctx context.Context) error { return refusedWatch(ctx, t, s, "r/", "r0") }},
			{"watch more", denied, func(ctx context.Context) error { return refusedWatch(ctx, t, s, "r/", "\x00") }},
		} {
			for name, caller := range map[string]struct {
				ctx  context.Context
				want error
			}{
				"nobody":        {within(t), auth.ErrUserEmpty},
				"unknown token": {auth.With(within(t), auth.Invalid), auth.ErrInvalidToken},
				"u":             {byUser(t, "u"), c.user},
			} {
				if err := s.confirm(within(t)); err != nil {
					t.Fatal(err)
				}
				before := s.Revision()
				if err := c.call(caller.ctx); !errors.Is(err, caller.want) {
					t.Errorf("%s as %s: %v, want %v", c.what, name, err, caller.want)
				}
				if s.Revision() != before && caller.want != nil {
					t.Errorf("%s as %s has changed something", c.what, name)
				}
			}
			for _, ctx := range []context.Context{byUser(t, auth.Root), auth.With(within(t), auth.Server)} {
				if err := c.call(ctx); err != nil {
					t.Errorf("%s as root: %v", c.what, err)
				}
			}
		}
	})
}

// refusedWatch creates a watch and returns why it was refused.
func refusedWatch(ctx context.Context, tb testing.TB, s *Store, key, end string) error {
	tb.Helper()
	st := s.NewWatchStream()
	defer st.Close()
	if err := st.CatchUp(ctx); err != nil {
		return err
	}
	st.Watch(WatchRequest{As: auth.From(ctx), Key: []byte(key), End: []byte(end)})
	r := next(tb, st)
	if r.Canceled != (r.Err != nil) || !r.Created {
		return fmt.Errorf("got %+v", r)
	}
	return r.Err
}

// TestAuthRevoked takes a right away through one store. Once that is acknowledged, no store honours it, however it is
// used.
func TestAuthRevoked(t *testing.T) {
	t.Parallel()
	eachAuth(t, func(t *testing.T, all []*Store) {
		enable(t, all[0])
		for round := range 20 {
			a, b := all[round%len(all)], all[(round+1)%len(all)]
			change(t, a, permit("r", auth.ReadWrite, "s/"))
			ctx := byUser(t, "u")
			key := fmt.Append(nil, "s/", round)
			if _, err := b.Put(ctx, &PutRequest{Key: key}); err != nil {
				t.Fatal(err)
			}
			st := b.NewWatchStream()
			st.Watch(WatchRequest{As: auth.ByCertificate("u"), Key: key})
			if r := next(t, st); r.Err != nil {
				t.Fatal(r.Err)
			}
			change(t, a, []auth.Change{
				auth.RevokePermission{Role: "r", Key: []byte("s/"), End: []byte("s0")},
				auth.RevokeRole{User: "u", Role: "r"},
				auth.DeleteUser{Name: "u"},
				auth.DeleteRole{Name: "r"},
			}[round%4])
			secret := &PutRequest{Key: key, Value: []byte("secret")}
			if _, err := a.Put(byUser(t, auth.Root), secret); err != nil {
				t.Fatal(err)
			}
			for _, serializable := range []bool{true, false} {
				r := &RangeRequest{Key: key, Serializable: serializable}
				if _, err := b.Range(ctx, r); !errors.Is(err, auth.ErrPermissionDenied) {
					t.Fatalf("round %d: range: %v", round, err)
				}
				_, err := b.RangeStream(ctx, r, func([]*Row, bool) error { t.Error("a stream sends"); return nil })
				if !errors.Is(err, auth.ErrPermissionDenied) {
					t.Fatalf("round %d: stream: %v", round, err)
				}
			}
			if _, err := b.Put(ctx, &PutRequest{Key: key}); !errors.Is(err, auth.ErrPermissionDenied) {
				t.Fatalf("round %d: put: %v", round, err)
			}
			if r := next(t, st); !r.Canceled || !errors.Is(r.Err, auth.ErrPermissionDenied) {
				t.Fatalf("round %d: watch: %+v", round, r)
			}
			st.Close()
			if round%4 == 3 {
				change(t, a, auth.AddRole{Name: "r"})
			}
			if round%4 == 2 {
				change(t, a, auth.AddUser{Name: "u"})
			}
			if round%4 != 0 {
				change(t, a, auth.GrantRole{User: "u", Role: "r"})
			}
		}
	})
}

// TestAuthEnabled enables authentication below calls that began without: watches end, and reads and writes are refused
// by every store.
func TestAuthEnabled(t *testing.T) {
	eachAuth(t, func(t *testing.T, all []*Store) {
		put(t, all[0], "k", "v")
		st := watchAll(t, last(all), 0)
		enable(t, all[0])
		put := &PutRequest{Key: []byte("k"), Value: []byte("secret")}
		if _, err := all[0].Put(byUser(t, auth.Root), put); err != nil {
			t.Fatal(err)
		}
		if _, err := last(all).Put(within(t), put); !errors.Is(err, auth.ErrUserEmpty) {
			t.Errorf("put: %v", err)
		}
		_, err := last(all).Range(within(t), &RangeRequest{Key: []byte("k")})
		if !errors.Is(err, auth.ErrUserEmpty) {
			t.Errorf("range: %v", err)
		}
		if r := next(t, st); !r.Canceled || !errors.Is(r.Err, auth.ErrUserEmpty) {
			t.Errorf("watch: %+v", r)
		}
		change(t, last(all), auth.Disable{})
		if row := get(t, all[0], "k", 0); string(row.Value) != "secret" {
			t.Errorf("got %+v", row)
		}
	})
}

// TestAuthInOneBatch enables authentication in the batch in which others write: what comes after it needs rights.
func TestAuthInOneBatch(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		enable(t, s)
		if _, err := s.LeaseGrant(byUser(t, auth.Root), 1, 3600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(byUser(t, auth.Root), &PutRequest{Key: []byte("x"), Lease: 1}); err != nil {
			t.Fatal(err)
		}
		change(t, s, auth.Disable{})
		write := func(lease int64) *call {
			return s.newCall(byUser(t, "u"), &txnOperation{txn: &Txn{
				Success: []Op{{Put: &PutRequest{Key: []byte("w/k"), Lease: lease}}},
			}})
		}
		before, after, allowed := write(1), write(1), write(0)
		enables := s.newCall(byUser(t, auth.Root), &authOperation{change: auth.Enable{}})
		s.seq.commit([]*call{before, enables, after, allowed}, false)
		for what, c := range map[string]struct {
			call *call
			want error
		}{
			"before": {before, nil}, "enable": {enables, nil}, "after": {after, auth.ErrPermissionDenied},
			"allowed": {allowed, nil},
		} {
			if err := c.call.err; !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
	})
}

// TestAuthStays restarts the store.
func TestAuthStays(t *testing.T) {
	b := openSQLite(t)
	s, err := Open(t.Context(), b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	enable(t, s)
	revision := s.Auth().Revision()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, b, Config{})
	if got := s.Auth(); !got.Enabled() || got.Revision() != revision {
		t.Errorf("enabled: %t, revision %d; it was %d", got.Enabled(), got.Revision(), revision)
	}
	if _, err := s.Put(byUser(t, "u"), &PutRequest{Key: []byte("w/k")}); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("w/k")}); !errors.Is(err, auth.ErrUserEmpty) {
		t.Error(err)
	}
}
