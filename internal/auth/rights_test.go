package auth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// letters are the bytes of random keys: few, so that ranges meet.
var letters = []byte{0, 'a', 'b', 0xff}

func randomKey(r *rand.Rand, least int) []byte {
	key := make([]byte, least+r.IntN(3))
	for i := range key {
		key[i] = letters[r.IntN(len(letters))]
	}
	return key
}

// allKeys are all keys of up to three letters, and for each one that follows it immediately.
func allKeys() (all []string) {
	level := []string{""}
	for range 3 {
		var next []string
		for _, k := range level {
			for _, l := range letters {
				next = append(next, k+string([]byte{l}))
			}
		}
		all, level = append(all, next...), next
	}
	for _, k := range slices.Clone(all) {
		all = append(all, k+"\x00\x00\x00\x00")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func within(key string, start, end []byte) bool {
	switch {
	case len(end) == 0:
		return key == string(start)
	case open(end):
		return key >= string(start)
	}
	return key >= string(start) && key < string(end)
}

// TestRights compares random permissions with what they mean, key by key. The keys are dense enough to notice every gap
// between random ranges.
func TestRights(t *testing.T) {
	keys := allKeys()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var given []Permission
		s := &State{roles: map[string]*Role{}, users: map[string]*user{}, enabled: true}
		for i := range 1 + r.IntN(3) {
			role := Role{Name: fmt.Sprint(i)}
			for range r.IntN(4) {
				p := Permission{Kind: Kind(r.IntN(3)), Key: randomKey(r, 1), End: randomKey(r, 0)}
				if valid(p.Key, p.End) {
					role.Permissions = append(role.Permissions, p)
				}
			}
			given = append(given, role.Permissions...)
			s.roles[role.Name] = &role
		}
		s.set(User{Name: "u", Roles: []string{"0", "1", "2", "gone"}})
		id := ByCertificate("u")
		for range 100 {
			key, end := randomKey(r, 1), randomKey(r, 0)
			read, write := true, true
			for _, k := range keys {
				if !within(k, key, end) {
					continue
				}
				holds := func(kind Kind) bool {
					return slices.ContainsFunc(given, func(p Permission) bool {
						return (p.Kind == kind || p.Kind == ReadWrite) && within(k, p.Key, p.End)
					})
				}
				read, write = read && holds(Read), write && holds(Write)
			}
			if len(end) > 0 && !open(end) && string(end) <= string(key) {
				continue // it is empty; see TestEmptyRange
			}
			if got := s.CanRead(id, key, end) == nil; got != read {
				t.Fatalf("seed %d: read [%q, %q) with %q: %t", seed, key, end, given, got)
			}
			if got := s.CanWrite(id, key, end) == nil; got != write {
				t.Fatalf("seed %d: write [%q, %q) with %q: %t", seed, key, end, given, got)
			}
		}
	}
}

// TestEmptyRange requires the right to the first key of a range that has none.
func TestEmptyRange(t *testing.T) {
	s := &State{roles: map[string]*Role{}, users: map[string]*user{}, enabled: true}
	s.roles["r"] = &Role{Permissions: []Permission{{Key: []byte("b"), End: []byte("d")}}}
	s.set(User{Name: "u", Roles: []string{"r"}})
	for key, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false} {
		if got := s.CanRead(ByCertificate("u"), []byte(key), []byte("a")) == nil; got != want {
			t.Errorf("read [%q, \"a\"): %t", key, got)
		}
	}
}

// BenchmarkCanRead checks a key and a range of one of 100 users with 5 of 50 roles, each with 20 permissions.
func BenchmarkCanRead(b *testing.B) {
	s, id := large(b)
	key, end := []byte("/registry/7/3/x"), []byte("/registry/7/3/y")
	for name, end := range map[string][]byte{"key": nil, "range": end} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.CanRead(id, key, end); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChange grants a permission in the same state, and builds the rights that a check needs after it.
func BenchmarkChange(b *testing.B) {
	s, id := large(b)
	p := Permission{Key: []byte("x")}
	b.ReportAllocs()
	for b.Loop() {
		p.Kind = (p.Kind + 1) % 3
		next, err := s.Apply(GrantPermission{Role: "role7", Permission: p})
		if err != nil {
			b.Fatal(err)
		}
		_ = next.CanRead(id, []byte("x"), nil)
	}
}

// large returns a state with 100 users and 50 roles, and one of the users, who may read all keys of role 7.
func large(tb testing.TB) (*State, Identity) {
	tb.Helper()
	s := New(first)
	apply := func(c Change) {
		next, err := s.Apply(c)
		if err != nil {
			tb.Fatal(err)
		}
		s = next
	}
	for i := range 50 {
		role := fmt.Sprint("role", i)
		apply(AddRole{Name: role})
		for j := range 20 {
			key := fmt.Appendf(nil, "/registry/%d/%d/", i, j)
			apply(GrantPermission{Role: role, Permission: Permission{
				Kind: ReadWrite, Key: key, End: append(key[:len(key)-1:len(key)-1], '0'),
			}})
		}
	}
	for i := range 100 {
		apply(AddUser{Name: fmt.Sprint("user", i)})
		for j := range 5 {
			apply(GrantRole{User: fmt.Sprint("user", i), Role: fmt.Sprint("role", (i+j)%50)})
		}
	}
	apply(AddUser{Name: Root})
	apply(GrantRole{User: Root, Role: Root})
	apply(Enable{})
	return s, ByCertificate("user5")
}
