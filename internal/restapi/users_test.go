package restapi_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// withUsers enables authentication with root and alice, who may read and write a/, and bob, who may read it.
func (s *served) withUsers() {
	s.t.Helper()
	hash := func(password string) []byte { return mustHash(s.t, password) }
	below := func(kind auth.Kind) auth.Permission {
		return auth.Permission{Kind: kind, Key: []byte("a/"), End: []byte("a0")}
	}
	for _, c := range []auth.Change{
		auth.AddUser{Name: "root", Hash: hash("of root")},
		auth.AddRole{Name: "root"},
		auth.GrantRole{User: "root", Role: "root"},
		auth.AddUser{Name: "alice", Hash: hash("of alice")},
		auth.AddRole{Name: "writer"},
		auth.GrantPermission{Role: "writer", Permission: below(auth.ReadWrite)},
		auth.GrantRole{User: "alice", Role: "writer"},
		auth.AddUser{Name: "bob", Hash: hash("of bob")},
		auth.AddRole{Name: "reader"},
		auth.GrantPermission{Role: "reader", Permission: below(auth.Read)},
		auth.GrantRole{User: "bob", Role: "reader"},
		auth.Enable{},
	} {
		s.change(c)
	}
}

func (s *served) change(c auth.Change) {
	s.t.Helper()
	if _, err := s.store.ChangeAuth(auth.With(s.t.Context(), auth.Server), c); err != nil {
		s.t.Fatalf("%+v: %v", c, err)
	}
}

// basic is a header with a user and a password.
func basic(user, password string) string {
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	return "Authorization: " + r.Header.Get("Authorization")
}

// Requests need a user, by password or token, whose roles allow them; the answers are 401 and 403 otherwise.
func TestUsers(t *testing.T) {
	s := serve(t, restapi.Options{})
	a := authn.New(s.store, authn.Options{BcryptCost: bcrypt.MinCost})
	if r := s.do(http.MethodPut, "/v1/objects/a/x", `{"value":1}`, basic("nobody", "knows")); r.code != 201 {
		t.Fatalf("with authentication disabled: %d %s", r.code, r.body)
	}
	s.withUsers()
	token, err := a.Login(t.Context(), "alice", "of alice", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	alice, bob, root := basic("alice", "of alice"), basic("bob", "of bob"), basic("root", "of root")
	bearer := "Authorization: Bearer " + token
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		reason                   string
	}{
		{"get", "GET", "/v1/objects/a/x", "", []string{alice}, 200, ""},
		{"get by token", "GET", "/v1/objects/a/x", "", []string{bearer}, 200, ""},
		{"token, other case", "GET", "/v1/objects/a/x", "", []string{"Authorization: bearer " + token}, 200, ""},
		{"list", "GET", "/v1/objects/a/", "", []string{bob}, 200, ""},
		{"list more", "GET", "/v1/objects/", "", []string{bob}, 403, "Forbidden"},
		{"root lists all", "GET", "/v1/objects/", "", []string{root}, 200, ""},
		{"get of another", "GET", "/v1/objects/b", "", []string{alice}, 403, "Forbidden"},
		{"put", "PUT", "/v1/objects/a/y", `{"value":1}`, []string{alice}, 201, ""},
		{"history of another", "GET", "/v1/objects/b?history=true", "", []string{alice}, 403, "Forbidden"},
		{"another at a time", "GET", "/v1/objects/b?at=2100-01-01T00:00:00Z", "", []string{alice}, 403, "Forbidden"},
		{"put by a reader", "PUT", "/v1/objects/a/z", `{"value":1}`, []string{bob}, 403, "Forbidden"},
		{"delete by a reader", "DELETE", "/v1/objects/a/y", "", []string{bob}, 403, "Forbidden"},
		{"delete", "DELETE", "/v1/objects/a/y", "", []string{bearer}, 200, ""},
		{"watch of another", "GET", "/v1/objects/b?watch=true", "", []string{alice}, 403, "Forbidden"},
		{"watch of more", "GET", "/v1/objects/?watch=true", "", []string{bob}, 403, "Forbidden"},
		{"no user", "GET", "/v1/objects/a/x", "", nil, 401, "Unauthorized"},
		{"no user puts", "PUT", "/v1/objects/a/x", `{"value":1}`, nil, 401, "Unauthorized"},
		{"no user watches", "GET", "/v1/objects/a/?watch=true", "", nil, 401, "Unauthorized"},
		{"wrong password", "GET", "/v1/objects/a/x", "", []string{basic("alice", "of bob")}, 401, "Unauthorized"},
		{"unknown user", "GET", "/v1/objects/a/x", "", []string{basic("carol", "x")}, 401, "Unauthorized"},
		{
			"wrong token", "GET", "/v1/objects/a/x", "",
			[]string{"Authorization: Bearer abcdefghijklmnop.1"},
			401,
			"Unauthorized",
		},
		{"other scheme", "GET", "/v1/objects/a/x", "", []string{"Authorization: Digest x"}, 401, "Unauthorized"},
		{"nonsense", "GET", "/v1/objects/a/x", "", []string{"Authorization: Basic !"}, 401, "Unauthorized"},
		{"the description", "GET", "/openapi.json", "", nil, 200, ""},
	} {
		r := s.do(c.method, c.path, c.body, c.headers...)
		if r.code != c.code {
			t.Errorf("%s: %d %s", c.name, r.code, r.body)
			continue
		}
		if c.code == 401 && len(r.header.Values("WWW-Authenticate")) != 2 {
			t.Errorf("%s: challenges %q", c.name, r.header.Values("WWW-Authenticate"))
		}
		if c.reason == "" {
			continue
		}
		var st struct {
			Kind, Reason string
			Code         int
		}
		if err := json.Unmarshal([]byte(r.body), &st); err != nil || st.Kind != "Status" || st.Reason != c.reason ||
			st.Code != c.code {
			t.Errorf("%s: %s, %v", c.name, r.body, err)
		}
	}
	s.change(auth.ChangePassword{Name: "alice", Hash: mustHash(t, "a new one")})
	for name, header := range map[string]string{"the old password": alice, "the old token": bearer} {
		if r := s.do("GET", "/v1/objects/a/x", "", header); r.code != 401 {
			t.Errorf("%s: %d %s", name, r.code, r.body)
		}
	}
	if r := s.do("GET", "/v1/objects/a/x", "", basic("alice", "a new one")); r.code != 200 {
		t.Errorf("the new password: %d %s", r.code, r.body)
	}
	s.change(auth.Disable{})
	if r := s.do("GET", "/v1/objects/a/x", "", basic("alice", "whatever")); r.code != 200 {
		t.Errorf("disabled again: %d %s", r.code, r.body)
	}
}

func mustHash(t testing.TB, password string) []byte {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A watch whose right is revoked ends with an ERROR event.
func TestWatchEndsWithItsRight(t *testing.T) {
	s := serve(t, restapi.Options{})
	s.withUsers()
	resp := s.open("GET", "/v1/objects/a/?watch=true", "", basic("alice", "of alice"))
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	put := func(key string) {
		t.Helper()
		if _, err := s.store.Put(auth.With(t.Context(), auth.Server), &store.PutRequest{
			Key: []byte(key), Value: []byte("1"),
		}); err != nil {
			t.Fatal(err)
		}
	}
	put("a/seen")
	if !lines.Scan() || !strings.Contains(lines.Text(), "a/seen") {
		t.Fatalf("%s, %v", lines.Text(), lines.Err())
	}
	s.change(auth.RevokeRole{User: "alice", Role: "writer"})
	put("a/secret")
	if !lines.Scan() || !strings.Contains(lines.Text(), `"ERROR"`) || !strings.Contains(lines.Text(), `"Forbidden"`) {
		t.Errorf("%s, %v", lines.Text(), lines.Err())
	}
	if lines.Scan() {
		t.Errorf("after the end: %s", lines.Text())
	}
}

// The common name of a client's certificate is its user, where the server asks for certificates.
func TestCertificateIsUser(t *testing.T) {
	b := openSQLite(t)
	st, err := store.Open(t.Context(), b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	ca := authority.New(t)
	for _, asks := range []bool{true, false} {
		server := httptest.NewUnstartedServer(restapi.New(st, b, restapi.Options{ClientCertAuth: asks}))
		server.TLS = &tls.Config{
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
			Certificates: []tls.Certificate{ca.Pair("s")},
		}
		server.StartTLS()
		t.Cleanup(server.Close)
		s := &served{t: t, url: server.URL, store: st, client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Pair("alice")}},
		}}}
		if asks {
			s.withUsers()
		}
		want := map[string]int{"/v1/objects/a/x": 404, "/v1/objects/b": 403}
		if !asks {
			want = map[string]int{"/v1/objects/a/x": 401}
		}
		for path, code := range want {
			if r := s.do("GET", path, ""); r.code != code {
				t.Errorf("asks for certificates: %v, %s: %d %s", asks, path, r.code, r.body)
			}
		}
		if r := s.do("GET", "/v1/objects/b", "", basic("root", "of root")); r.code != 404 {
			t.Errorf("a password takes precedence: %d %s", r.code, r.body)
		}
	}
}

// Requests are in the audit log, without values and passwords.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(path, audit.All)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, restapi.Options{Audit: log})
	s.withUsers()
	alice := basic("alice", "of alice")
	s.do("PUT", "/v1/objects/a/x", `{"value":"secret"}`, alice)
	s.do("GET", "/v1/objects/a/", "", alice)
	s.do("GET", "/v1/objects/b", "", alice)
	s.do("GET", "/v1/objects/a/x", "", basic("alice", "secret"))
	s.do("GET", "/v1/objects/a/x?watch=true&timeoutSeconds=1", "", alice)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		e := map[string]any{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		outcome, _, _ := strings.Cut(e["outcome"].(string), ":")
		user, _ := e["user"].(string)
		end, _ := e["range_end"].(string)
		got = append(got, strings.Join([]string{user, e["call"].(string), e["key"].(string), end, outcome}, " "))
	}
	want := []string{
		"alice objects/put a/x  OK", "alice objects/list a/ a0 OK", "alice objects/get b  Forbidden",
		" objects/get a/x  Unauthorized", "alice objects/watch a/x  OK",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if strings.Contains(string(text), "secret") || strings.Contains(string(text), "of alice") {
		t.Errorf("a secret: %s", text)
	}
}

// At the level of writes, the log has failed logins, too.
func TestAuditOfLogins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(path, audit.Writes)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, restapi.Options{Audit: log})
	s.withUsers()
	s.do("GET", "/v1/objects/a/x", "", basic("alice", "of alice"))
	s.do("GET", "/v1/objects/a/x", "", basic("alice", "secret"))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e struct{ Call, Name, Outcome string }
	if err := json.Unmarshal(text, &e); err != nil { // a single line
		t.Fatalf("%v: %s", err, text)
	}
	if e.Call != "objects/get" || e.Name != "alice" || !strings.HasPrefix(e.Outcome, "Unauthorized: ") {
		t.Errorf("%s", text)
	}
}
