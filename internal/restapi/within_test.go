package restapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/restapi"
)

// A request within the process has the rights of the identity in its context, as long as that is valid, and says who
// the caller is.
func TestCallersWithinTheProcess(t *testing.T) {
	s := serve(t, restapi.Options{})
	nobody := auth.Identity{}
	ask := func(id auth.Identity, path, header string, code int, reported auth.Identity) {
		t.Helper()
		got := auth.ByCertificate("nobody reported")
		ctx := auth.Reporting(auth.With(t.Context(), id), func(id auth.Identity) { got = id })
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if header != "" {
			r.Header.Set("Authorization", header[len("Authorization: "):])
		}
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		if w.Code != code || code == http.StatusOK && got != reported {
			t.Errorf("%+v gets %s: %d %s, reported %+v", id, path, w.Code, w.Body, got)
		}
	}
	list, enabled := "/v1/objects/a/", "/v1/auth"
	alice := auth.ByPassword("alice", 3)
	ask(alice, list, "", 200, nobody)
	s.withUsers()
	ask(alice, list, "", 401, nobody) // of a time before the user existed
	ask(nobody, enabled, "", 200, nobody)
	ask(nobody, list, "", 401, nobody)
	alice = auth.ByPassword("alice", s.store.Auth().Revision())
	ask(alice, list, "", 200, alice)
	ask(alice, enabled, "", 200, alice)
	ask(alice, "/v1/objects/", "", 403, nobody)
	bob := auth.ByPassword("bob", s.store.Auth().Revision())
	ask(alice, list, basic("bob", "of bob"), 200, bob)
	ask(alice, list, basic("bob", "of alice"), 401, nobody)
	s.change(auth.GrantRole{User: "alice", Role: "root"})
	ask(alice, "/v1/objects/", "", 200, alice)
	s.change(auth.ChangePassword{Name: "alice", Hash: mustHash(t, "another")})
	ask(alice, list, "", 401, nobody)
	ask(alice, enabled, "", 401, nobody)
	ask(bob, list, "", 200, bob)
	s.change(auth.Disable{})
	ask(bob, enabled, "", 200, nobody)
	s.change(auth.Enable{})
	ask(bob, enabled, "", 401, nobody)
}
