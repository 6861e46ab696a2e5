package restapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// userJSON and roleJSON are what clients see, alone or in a list.
type userJSON struct {
	Kind, Name string
	NoPassword *bool
	Roles      []string
}

type roleJSON struct {
	Kind, Name  string
	Permissions []json.RawMessage
}

func TestUsersAndRoles(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	user := func(u userJSON) string {
		if u.NoPassword == nil || u.Roles == nil {
			t.Errorf("%+v", u)
			return u.Name
		}
		return fmt.Sprintf("%s:%v:%s", u.Name, *u.NoPassword, strings.Join(u.Roles, ","))
	}
	if got := listOf(s, "/v1/users", 0, user); got != "" {
		t.Errorf("of an empty store: %s", got)
	}
	const hostile = `</script>"'\ &` + "\u202e\n"
	for _, c := range []auth.Change{
		auth.AddRole{Name: "root"},
		auth.AddRole{Name: "some"},
		auth.AddRole{Name: "a/b"},
		auth.AddUser{Name: "bob", Hash: mustHash(t, "x")},
		auth.AddUser{Name: hostile, NoPassword: true},
		auth.GrantRole{User: "bob", Role: "some"},
		auth.GrantRole{User: "bob", Role: "a/b"},
	} {
		s.change(c)
	}
	for _, p := range []auth.Permission{
		{Kind: auth.Read, Key: []byte("k")},
		{Kind: auth.Write, Key: []byte("p/"), End: []byte("p0")},
		{Kind: auth.ReadWrite, Key: []byte("r"), End: []byte{0}},
		{Kind: auth.Read, Key: []byte("s"), End: []byte("x\xff")},
		{Kind: auth.Read, Key: []byte{0}, End: []byte{0}},
		{Kind: 7, Key: []byte("t")},
	} {
		s.change(auth.GrantPermission{Role: "some", Permission: p})
	}
	const users = hostile + ":true: bob:false:a/b,some"
	for _, limit := range []int{0, 1} {
		if got := listOf(s, "/v1/users", limit, user); got != users {
			t.Errorf("limit %d: %q", limit, got)
		}
		if got := listOf(s, "/v1/roles", limit, func(r roleJSON) string {
			return fmt.Sprintf("%s:%d", r.Name, len(r.Permissions))
		}); got != "a/b:0 root:1 some:6" {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	var u userJSON
	s.do("GET", "/v1/users/bob", "").want(200, "").decode(&u)
	if u.Kind != "User" || user(u) != "bob:false:a/b,some" {
		t.Errorf("%+v", u)
	}
	for name, want := range map[string]string{
		"root": `{"access":"readwrite","prefix":""}`, "a%2Fb": "", "a/b": "",
		"some": `{"access":"read","prefix":""} {"access":"read","key":"k"} {"access":"write","prefix":"p/"} ` +
			`{"access":"readwrite","from":"r"} ` +
			`{"access":"read","from":"s","to":"x` + "\uFFFD" + `","toBase64":"eP8="} {"access":"7","key":"t"}`,
	} {
		var r roleJSON
		s.do("GET", "/v1/roles/"+name, "").want(200, "").decode(&r)
		var got []string
		for _, p := range r.Permissions {
			got = append(got, string(p))
		}
		if r.Kind != "Role" || strings.Join(got, " ") != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, path := range []string{"/v1/users/carol", "/v1/roles/bob", "/v1/roles/a/b/", "/v1/users/", "/v1/roles/"} {
		s.do("GET", path, "").want(404, "NotFound")
	}
	ofRoles := base64.RawURLEncoding.EncodeToString([]byte("RoleList a"))
	s.do("GET", "/v1/roles?continue="+ofRoles, "").want(200, "")
	for _, path := range []string{
		"/v1/users/%2e%2e", "/v1/users?limit=x", "/v1/roles?continue=!", "/v1/users?resourceVersion=2",
		"/v1/users/bob?watch=true", "/v1/auth?history=true", "/v1/alarms?watch=true",
		"/v1/users?continue=" + ofRoles, "/v1/leases?continue=" + ofRoles,
	} {
		s.do("GET", path, "").want(400, "BadRequest")
	}
	for _, path := range []string{"users", "users/bob", "roles", "roles/some", "auth", "alarms"} {
		s.do("PUT", "/v1/"+path, "").want(405, "MethodNotAllowed")
	}
	if body := s.do("GET", "/v1/users", "").body + s.do("GET", "/v1/users/bob", "").body; strings.Contains(body, "$2") {
		t.Errorf("the hash of a password is shown: %s", body)
	}
}

// A chunk of roles is bounded by the names in it.
func TestChunksOfLongNames(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for _, role := range []string{"a", "b", "c"} {
		s.change(auth.AddRole{Name: role})
		s.change(auth.GrantPermission{Role: role, Permission: auth.Permission{
			Kind: auth.Read, Key: []byte(strings.Repeat(role, 200<<10)),
		}})
	}
	var l chunkJSON[roleJSON]
	s.do("GET", "/v1/roles", "").want(200, "").decode(&l)
	if len(l.Items) != 1 || l.Metadata.RemainingItemCount != 2 {
		t.Errorf("%d roles in the first chunk, %+v", len(l.Items), l.Metadata)
	}
	if got := listOf(s, "/v1/roles", 0, func(r roleJSON) string { return r.Name }); got != "a b c" {
		t.Error(got)
	}
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	name := func(a struct{ Member, Type string }) string { return a.Type + ":" + a.Member }
	if got := listOf(s, "/v1/alarms", 0, name); got != "" {
		t.Errorf("none is raised: %s", got)
	}
	for _, a := range []store.Alarm{
		{Member: 1 << 63, Kind: 7}, {Member: 10, Kind: store.AlarmCorrupt}, {Member: 10, Kind: store.AlarmNoSpace},
	} {
		if err := s.store.RaiseAlarm(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if got := listOf(s, "/v1/alarms", 0, name); got != "NOSPACE:a CORRUPT:a 7:8000000000000000" {
		t.Error(got)
	}
}

// Callers need the rights that they need for the same over gRPC.
func TestRightsToSeeUsersAndLeases(t *testing.T) {
	s := serve(t, restapi.Options{})
	a := authn.New(s.store, authn.Options{BcryptCost: bcrypt.MinCost})
	s.grant(1, time.Hour, "a/x")
	s.grant(2, time.Hour, "b")
	var status struct {
		Enabled      bool
		AuthRevision string
	}
	if s.do("GET", "/v1/auth", "").want(200, "").decode(&status); status.Enabled || status.AuthRevision != "1" {
		t.Errorf("before: %+v", status)
	}
	s.withUsers()
	token, err := a.Login(t.Context(), "alice", "of alice", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	alice, root, bearer := basic("alice", "of alice"), basic("root", "of root"), "Authorization: Bearer "+token
	for path, want := range map[string][3]int{ // without a user, of alice, of root
		"/v1/auth":     {200, 200, 200},
		"/v1/alarms":   {401, 200, 200},
		"/v1/leases":   {401, 403, 200},
		"/v1/leases/1": {401, 200, 200},
		"/v1/leases/2": {401, 403, 200},
		"/v1/leases/3": {401, 404, 404},

		"/v1/leases/2?keys=false": {401, 200, 200},

		"/v1/users":        {401, 403, 200},
		"/v1/users/alice":  {401, 200, 200},
		"/v1/users/bob":    {401, 403, 200},
		"/v1/users/none":   {401, 403, 404},
		"/v1/roles":        {401, 403, 200},
		"/v1/roles/writer": {401, 200, 200},
		"/v1/roles/reader": {401, 403, 200},
		"/v1/roles/none":   {401, 403, 404},
	} {
		for i, headers := range [][]string{nil, {alice}, {root}} {
			r := s.do("GET", path, "", headers...)
			if reason := map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}[want[i]]; r.code !=
				want[i] {
				t.Errorf("%s of %q: %d %s", path, headers, r.code, r.body)
			} else {
				r.want(want[i], reason)
			}
			if want[i] == 403 && !strings.Contains(r.status().Message, path) {
				t.Errorf("%s: %s", path, r.body)
			}
		}
		s.do("GET", path, "", basic("alice", "of bob")).want(401, "Unauthorized")
	}
	s.do("GET", "/v1/leases/1", "", bearer).want(200, "")
	if s.do("GET", "/v1/auth", "").decode(&status); !status.Enabled || status.AuthRevision != "12" {
		t.Errorf("after: %+v", status)
	}
	s.do("GET", "/v1/auth", "", "Authorization: Bearer abcdefghijklmnop.1").want(401, "Unauthorized")
	if got := listOf(s, "/v1/leases", 1, func(l leaseJSON) string { return l.ID }, root); got !=
		"0000000000000001 0000000000000002" {
		t.Error(got)
	}
	s.change(auth.GrantPermission{Role: "writer", Permission: auth.Permission{Kind: auth.Read, Key: []byte("b")}})
	s.do("GET", "/v1/leases", "", alice).want(200, "")
}

// The audit log names the lease, user or role of a request.
func TestAuditOfUsersAndLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(path, audit.All)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, restapi.Options{Audit: log})
	s.withUsers()
	alice := basic("alice", "of alice")
	for _, path := range []string{"leases", "leases/1", "alarms", "users/alice", "roles/reader", "auth"} {
		s.do(http.MethodGet, "/v1/"+path, "", alice)
	}
	s.do(http.MethodGet, "/v1/users/root", "", basic("alice", "secret"))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var e struct{ User, Call, Lease, Name, Role, Outcome string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		outcome, _, _ := strings.Cut(e.Outcome, ":")
		got = append(got, strings.Join([]string{e.User, e.Call, e.Lease + e.Name + e.Role, outcome}, " "))
		if strings.Contains(line, `"key"`) {
			t.Errorf("a key: %s", line)
		}
	}
	if want := []string{
		"alice objects/leases  OK", "alice objects/lease 1 NotFound", "alice objects/alarms  OK",
		"alice objects/user alice OK", "alice objects/role reader Forbidden", "alice objects/auth  OK",
		" objects/user alice Unauthorized",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
