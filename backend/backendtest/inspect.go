package backendtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// view opens the database for reading, until the test ends.
func (f *fixture) view() backend.View {
	f.Helper()
	v := f.hooks.View(f.T, f.b)
	f.Cleanup(func() {
		if err := v.Close(); err != nil {
			f.Error(err)
		}
	})
	return v
}

// inspect returns what is wrong with the database.
func (f *fixture) inspect(v backend.View) backend.Inspection {
	f.Helper()
	var i backend.Inspection
	if err := v.Inspect(context.Background(), &i); err != nil {
		f.Fatalf("inspect: %v", err)
	}
	return i
}

// wantSound fails if an inspection finds anything.
func (f *fixture) wantSound(v backend.View) {
	f.Helper()
	if i := f.inspect(v); i.Found > 0 {
		f.Fatalf("%d rows: %q", i.Rows, i.Problems)
	}
}

// An inspection finds nothing wrong with a sound store, in any state, and finds each kind of damage. A view answers
// like the backend.
func testInspect(f *fixture) {
	v := f.view()
	f.wantSound(v)
	f.commit([]op{put("other", "another value")}, []op{put("a", "1"), put("b", "1")}, []op{put("a", "2")})
	f.commit([]op{del("b")}, []op{put("b", "2")}, []op{del("a")})
	var many [][]op // more than one statement reads
	for i := range 350 {
		many = append(many, []op{put("k", "v"), put(fmt.Sprint("k", i), "v")}, []op{del("k")})
	}
	f.commit(many...)
	f.wantSound(v)
	f.compact(f.m.clock.Revision - 7)
	f.wantSound(v)
	f.purge(1000)
	f.wantSound(v)
	f.commit([]op{put("a", "3"), put("b", "3")})
	last := f.commitOf(f.m.clock.Revision)
	if c, clock, err := v.CurrentAt(context.Background(), last.At); err != nil || c.Revision != last.Revision ||
		clock != f.m.clock {
		f.Errorf("a view says %+v, %+v, %v", c, clock, err)
	}
	if c, _, err := v.WrittenAt(context.Background(), last.Revision); err != nil || !c.At.Equal(last.At) {
		f.Errorf("a view says %+v, %v; want %+v", c, err, last)
	}

	found := int64(0)
	more := func(what, statement string) {
		f.Helper()
		f.hooks.Execute(f.T, f.b, statement)
		i := f.inspect(v)
		if i.Found <= found {
			f.Errorf("%s: not found, the problems are %q", what, i.Problems)
		}
		found = i.Found
	}
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		f.commit([]op{put("key "+name, "v")})
		more(name, fmt.Sprintf("UPDATE object_versions SET %s WHERE resource_version = %d", damages[name],
			f.m.clock.Revision))
	}
	more("authentication without root", "UPDATE auth SET enabled = (1 = 1)")
	more("a role that is missing", "INSERT INTO auth_users SELECT key, key, (1 = 0), 1 FROM object_versions "+
		"WHERE resource_version = 2; INSERT INTO auth_user_roles SELECT name, name FROM auth_users")
	more("a user ahead", "UPDATE auth_users SET tokens_from = 2")
	f.hooks.Execute(f.T, f.b, "DELETE FROM auth")
	i := f.inspect(v)
	if found = i.Found; !slices.Contains(i.Problems, "the table auth has no row") {
		f.Errorf("without the row of auth, the problems are %q", i.Problems)
	}
	_, err := f.b.Auth(context.Background())
	f.wantErr("read users and roles", err, backend.ErrNoAuth)
	f.commit([]op{put("x", "1"), put("y", "1")}, []op{put("x", "2")}, []op{put("x", "3")}, []op{put("z", "1")})
	last = backend.Commit{Revision: f.m.clock.Revision}
	more("a version", fmt.Sprint("DELETE FROM object_versions WHERE resource_version = ", last.Revision-2))
	more("a row", fmt.Sprint("DELETE FROM object_versions WHERE ordinal = 0 AND resource_version = ", last.Revision-3))
	more("the clock ahead", fmt.Sprint("UPDATE clock SET revision = ", last.Revision+1))
	f.hooks.Execute(f.T, f.b, fmt.Sprint("UPDATE clock SET revision = ", last.Revision-3))
	above := func(problem string) bool { return strings.Contains(problem, "above the clock's revision") }
	if i = f.inspect(v); !slices.ContainsFunc(i.Problems, above) {
		f.Errorf("the clock behind: not found, the problems are %q", i.Problems)
	}
}
