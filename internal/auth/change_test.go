package auth

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// first is what a new store holds.
var first = backend.Auth{Revision: 1}

// step is a change and what becomes of it.
type step struct {
	change Change
	want   error
	moves  uint64 // how far the auth revision moves
}

func run(t *testing.T, s *State, steps []step) *State {
	t.Helper()
	for i, st := range steps {
		next, err := s.Apply(st.change)
		if !errors.Is(err, st.want) {
			t.Fatalf("step %d, %#v: %v, want %v", i, st.change, err, st.want)
		}
		if err != nil {
			continue
		}
		if got := next.Revision() - s.Revision(); got != st.moves {
			t.Fatalf("step %d, %#v moves the revision by %d", i, st.change, got)
		}
		s = next
	}
	return s
}

// TestLongNames adds names of the greatest size, and longer ones.
func TestLongNames(t *testing.T) {
	for size, want := range map[int]error{MaxName: nil, MaxName + 1: ErrNameTooLong} {
		name := strings.Repeat("n", size)
		for _, c := range []Change{AddUser{Name: name}, AddRole{name}} {
			if _, err := c.apply(New(first)); !errors.Is(err, want) {
				t.Errorf("%T of %d bytes: %v", c, size, err)
			}
		}
	}
}

// TestChanges has one step for each condition that a change depends on.
func TestChanges(t *testing.T) {
	key, end := []byte("k"), []byte("l")
	s := run(t, New(first), []step{
		{Enable{}, ErrRootUserNotExist, 0},
		{Disable{}, nil, 0},
		{AddUser{}, ErrUserEmpty, 0},
		{AddUser{Name: Root, Hash: []byte("h")}, nil, 1},
		{AddUser{Name: Root}, ErrUserExists, 0},
		{Enable{}, ErrRootRoleNotExist, 0},
		{GrantRole{"nobody", Root}, ErrUserNotFound, 0},
		{GrantRole{Root, "none"}, ErrRoleNotFound, 0},
		{GrantRole{Root, Root}, nil, 1}, // the role need not exist
		{GrantRole{Root, Root}, nil, 0},
		{AddRole{}, ErrRoleEmpty, 0},
		{AddRole{Root}, nil, 1},
		{AddRole{"r"}, nil, 1},
		{AddRole{"r"}, ErrRoleExists, 0},
		{GrantPermission{Role: "none", Missing: true}, ErrPermissionNotGiven, 0},
		{GrantPermission{Role: "none", Permission: Permission{}}, ErrInvalidManagement, 0},
		{GrantPermission{Role: "r", Permission: Permission{Key: end, End: key}}, ErrInvalidManagement, 0},
		{GrantPermission{Role: "none", Permission: Permission{Key: key}}, ErrRoleNotFound, 0},
		{GrantPermission{Role: "r", Permission: Permission{Key: key, End: end}}, nil, 1},
		{GrantPermission{Role: "r", Permission: Permission{Key: key, End: end}}, nil, 1},
		{RevokePermission{"none", key, end}, ErrRoleNotFound, 0},
		{RevokePermission{"r", key, nil}, ErrPermissionNotGranted, 0},
		{AddUser{Name: "u", Hash: []byte("h"), NoPassword: true}, nil, 1},
		{ChangePassword{"u", []byte("h")}, nil, 1},
		{ChangePassword{"nobody", nil}, ErrUserNotFound, 0},
		{GrantRole{"u", "r"}, nil, 1},
		{RevokeRole{"nobody", "r"}, ErrUserNotFound, 0},
		{RevokeRole{"u", "none"}, ErrRoleNotGranted, 0},
		{DeleteUser{"nobody"}, ErrUserNotFound, 0},
		{DeleteRole{"none"}, ErrRoleNotFound, 0},
		{Enable{}, nil, 0},
		{Enable{}, nil, 0},
		{DeleteUser{Root}, ErrInvalidManagement, 0},
		{DeleteRole{Root}, ErrInvalidManagement, 0},
		{RevokeRole{Root, Root}, ErrInvalidManagement, 0},
	})
	if u, _ := s.User("u"); u.Hash != nil || !u.NoPassword || !s.HasRole("u", "r") {
		t.Errorf("user %+v", u)
	}
	s = run(t, s, []step{{DeleteRole{"r"}, nil, 1}, {Disable{}, nil, 1}, {DeleteUser{Root}, nil, 1}})
	if s.HasRole("u", "r") || s.Enabled() || len(s.Users()) != 1 || len(s.Roles()) != 1 {
		t.Errorf("users %+v, roles %+v", s.Users(), s.Roles())
	}
}

// TestPermissionOrder replaces only the first permission that begins with a key, as etcd does.
func TestPermissionOrder(t *testing.T) {
	p := func(kind Kind, key, end string) Permission {
		return Permission{Kind: kind, Key: []byte(key), End: []byte(end)}
	}
	s := run(t, New(first), []step{{AddRole{"r"}, nil, 1}})
	for _, given := range []Permission{
		p(Read, "b", ""), p(Read, "a", "z"), p(Read, "b", "c"), p(Write, "b", "c"), p(ReadWrite, "b", ""),
	} {
		s = run(t, s, []step{{GrantPermission{Role: "r", Permission: given}, nil, 1}})
	}
	want := []Permission{p(Read, "a", "z"), p(ReadWrite, "b", ""), p(Read, "b", "c"), p(Write, "b", "c")}
	if r, _ := s.Role("r"); !reflect.DeepEqual(r.Permissions, want) {
		t.Errorf("permissions %+v, want %+v", r.Permissions, want)
	}
	s = run(t, s, []step{{RevokePermission{"r", []byte("b"), []byte("c")}, nil, 1}})
	if r, _ := s.Role("r"); !reflect.DeepEqual(r.Permissions, want[:2]) {
		t.Errorf("permissions %+v, want %+v", r.Permissions, want[:2])
	}
}

// TestCallers checks what becomes of each kind of credentials with each change.
func TestCallers(t *testing.T) {
	key := []byte("k")
	s := run(t, New(first), []step{
		{AddUser{Name: Root}, nil, 1},
		{GrantRole{Root, Root}, nil, 1},
		{AddUser{Name: "u"}, nil, 1},
		{AddRole{"r"}, nil, 1},
		{GrantPermission{Role: "r", Permission: Permission{Key: key}}, nil, 1},
		{GrantRole{"u", "r"}, nil, 1},
	})
	if err := s.CanWrite(Identity{}, key, nil); err != nil {
		t.Error("disabled: ", err)
	}
	s = run(t, s, []step{{Enable{}, nil, 0}})
	now := s.Revision()
	other := run(t, s, []step{{AddRole{"other"}, nil, 1}})
	changed := run(t, s, []step{{ChangePassword{"u", nil}, nil, 1}, {ChangePassword{Root, nil}, nil, 1}})
	again := run(t, s, []step{
		{DeleteUser{"u"}, nil, 1},
		{AddUser{Name: "u"}, nil, 1},
		{GrantRole{"u", "r"}, nil, 1},
		{Disable{}, nil, 1},
		{Enable{}, nil, 0},
	})
	gone := run(t, s, []step{{DeleteUser{"u"}, nil, 1}})
	revoked := run(t, s, []step{{RevokeRole{"u", "r"}, nil, 1}})
	for _, c := range []struct {
		what                      string
		s                         *State
		id                        Identity
		read, write, watch, admin error
	}{
		{"no credentials", s, Identity{}, ErrUserEmpty, ErrUserEmpty, ErrUserEmpty, ErrUserEmpty},
		{"made up", s, Identity{User: Root, Revision: now}, ErrUserEmpty, ErrUserEmpty, ErrUserEmpty, ErrUserEmpty},
		{"unknown token", s, Invalid, ErrInvalidToken, ErrInvalidToken, ErrInvalidToken, ErrInvalidToken},
		{"server", s, Server, nil, nil, nil, nil},
		{"root", s, ByCertificate(Root), nil, nil, nil, nil},
		{
			"no name", s, ByCertificate(""), ErrPermissionDenied, ErrPermissionDenied, ErrPermissionDenied,
			ErrUserEmpty,
		},
		{
			"nobody", s, ByCertificate("x"), ErrPermissionDenied, ErrPermissionDenied, ErrPermissionDenied,
			ErrUserNotFound,
		},
		{"certificate", s, ByCertificate("u"), nil, ErrPermissionDenied, nil, ErrPermissionDenied},
		{"password", s, ByPassword("u", now), nil, ErrPermissionDenied, nil, ErrPermissionDenied},
		{"signature", s, BySignature("u", now), nil, ErrPermissionDenied, nil, ErrPermissionDenied},
		{"certificate, another change", other, ByCertificate(Root), nil, nil, nil, nil},
		{"password, another change", other, ByPassword(Root, now), nil, nil, nil, nil},
		{"signature, another change", other, BySignature(Root, now), ErrOldRevision, ErrOldRevision, nil, nil},
		{"certificate, password changed", changed, ByCertificate(Root), nil, nil, nil, nil},
		{
			"password, password changed", changed, ByPassword(Root, now), ErrInvalidToken, ErrInvalidToken,
			ErrInvalidToken, ErrInvalidToken,
		},
		{
			"signature, password changed", changed, BySignature(Root, now), ErrOldRevision, ErrOldRevision,
			ErrPermissionDenied, ErrOldRevision,
		},
		{
			"password, disabled since", again, ByPassword(Root, now), ErrInvalidToken, ErrInvalidToken, ErrInvalidToken,
			ErrInvalidToken,
		},
		{
			"password, another of that name", again, ByPassword("u", now), ErrInvalidToken, ErrInvalidToken,
			ErrInvalidToken, ErrInvalidToken,
		},
		{
			"password, gone", gone, ByPassword("u", now), ErrInvalidToken, ErrInvalidToken, ErrInvalidToken,
			ErrInvalidToken,
		},
		{
			"certificate, gone", gone, ByCertificate("u"), ErrPermissionDenied, ErrPermissionDenied,
			ErrPermissionDenied, ErrUserNotFound,
		},
		{
			"password, revoked", revoked, ByPassword("u", now), ErrPermissionDenied, ErrPermissionDenied,
			ErrPermissionDenied, ErrPermissionDenied,
		},
	} {
		for _, check := range []struct {
			what      string
			got, want error
		}{
			{"read", c.s.CanRead(c.id, key, nil), c.read},
			{"write", c.s.CanWrite(c.id, key, nil), c.write},
			{"watch", c.s.CanWatch(c.id, key, nil), c.watch},
			{"admin", c.s.IsAdmin(c.id), c.admin},
		} {
			if !errors.Is(check.got, check.want) {
				t.Errorf("%s: %s: %v, want %v", c.what, check.what, check.got, check.want)
			}
		}
	}
}

// TestSince stores random changes the way a database does, and compares what is stored with the state. Each state stays
// as it is when the next one is made.
func TestSince(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		stored := first
		s := New(stored)
		for range 60 {
			before, was := s, dump(s)
			for range 1 + r.IntN(3) {
				if next, err := s.Apply(randomChange(r)); err == nil {
					s = next
				}
			}
			if got := dump(before); !reflect.DeepEqual(got, was) {
				t.Fatalf("seed %d: an older state has changed from %+v to %+v", seed, was, got)
			}
			if s != before {
				stored = store(stored, s.Since(before))
			}
			if got := dump(s); !reflect.DeepEqual(got, dump(New(stored))) {
				t.Fatalf("seed %d: the database has %+v, want %+v", seed, stored, got)
			}
		}
	}
}

func dump(s *State) backend.Auth {
	return backend.Auth{
		Enabled: s.enabled, Revision: s.revision, TokensFrom: s.tokensFrom, Users: s.Users(), Roles: s.Roles(),
	}
}

// store does what a database does with a change.
func store(a backend.Auth, c *backend.AuthChange) backend.Auth {
	a.Enabled, a.Revision, a.TokensFrom = c.Enabled, c.Revision, c.TokensFrom
	a.Users = slices.DeleteFunc(slices.Clone(a.Users), func(u User) bool {
		return slices.Contains(c.DroppedUsers, u.Name) ||
			slices.ContainsFunc(c.Users, func(n User) bool { return n.Name == u.Name })
	})
	a.Roles = slices.DeleteFunc(slices.Clone(a.Roles), func(r Role) bool {
		return slices.Contains(c.DroppedRoles, r.Name) ||
			slices.ContainsFunc(c.Roles, func(n Role) bool { return n.Name == r.Name })
	})
	a.Users, a.Roles = append(a.Users, c.Users...), append(a.Roles, c.Roles...)
	return a
}

func randomChange(r *rand.Rand) Change {
	user := []string{Root, "a", "b"}[r.IntN(3)]
	role := []string{Root, "r", "s"}[r.IntN(3)]
	p := Permission{Kind: Kind(r.IntN(3)), Key: randomKey(r, 1), End: randomKey(r, 0)}
	return []Change{
		Enable{},
		Disable{},
		AddUser{Name: user, Hash: fmt.Append(nil, r.Int())},
		AddUser{Name: user, NoPassword: true},
		DeleteUser{user},
		ChangePassword{user, fmt.Append(nil, r.Int())},
		GrantRole{user, role},
		GrantRole{user, role},
		RevokeRole{user, role},
		AddRole{role},
		AddRole{role},
		DeleteRole{role},
		GrantPermission{Role: role, Permission: p},
		GrantPermission{Role: role, Permission: p},
		RevokePermission{role, p.Key, p.End},
	}[r.IntN(15)]
}
