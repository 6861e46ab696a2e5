package store

import (
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/internal/auth"
)

// BenchmarkAuthRange gets one key of a database with 100 users, who have 5 of 50 roles each: without authentication, as
// root, and as one of the users.
func BenchmarkAuthRange(b *testing.B) {
	s := openStore(b, openSQLite(b), Config{})
	put(b, s, "/registry/7/3/x", "v")
	change(b, s, auth.AddUser{Name: auth.Root}, auth.GrantRole{User: auth.Root, Role: auth.Root})
	for i := range 50 {
		role := fmt.Sprint("role", i)
		change(b, s, auth.AddRole{Name: role})
		for j := range 20 {
			change(b, s, permit(role, auth.ReadWrite, fmt.Sprintf("/registry/%d/%d/", i, j)))
		}
	}
	for i := range 100 {
		user := fmt.Sprint("user", i)
		change(b, s, auth.AddUser{Name: user})
		for j := range 5 {
			change(b, s, auth.GrantRole{User: user, Role: fmt.Sprint("role", (i+j)%50)})
		}
	}
	get := func(id auth.Identity) func(b *testing.B) {
		return func(b *testing.B) {
			ctx := auth.With(b.Context(), id)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Range(ctx, &RangeRequest{Key: []byte("/registry/7/3/x")}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("off", get(auth.Identity{}))
	change(b, s, auth.Enable{})
	b.Run("root", get(auth.ByCertificate(auth.Root)))
	b.Run("user", get(auth.ByCertificate("user5")))
}
