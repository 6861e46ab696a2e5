package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
)

// navigate is what a browser says of a page that it will show.
const navigate = "Sec-Fetch-Mode: navigate"

// once sends a form, or nothing, and follows no redirection.
func (s *served) once(method, path string, form url.Values, headers ...string) *page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.within(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	answer, err := s.transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.page(answer)
}

// leads checks that an answer is a redirection.
func (p *page) leads(to string) *page {
	p.t.Helper()
	if got := p.header.Get("Location"); p.code != http.StatusSeeOther || got != to {
		p.t.Fatalf("%d to %q, want %q: %s", p.code, got, to, p.body)
	}
	return p
}

func credentials(name, password string, next ...string) url.Values {
	return url.Values{"name": {name}, "password": {password}, "next": next}
}

// signIn returns the header with the cookie of a new session of alice.
func (s *served) signIn(headers ...string) string {
	s.t.Helper()
	p := s.once(http.MethodPost, "/login", credentials("alice", "secret"), headers...).leads("/")
	cookie, _, _ := strings.Cut(p.header.Get("Set-Cookie"), ";")
	if _, key, _ := strings.Cut(cookie, "="); len(key) < 26 {
		s.t.Fatalf("the cookie %q", cookie)
	}
	return "Cookie: " + cookie
}

// admin is a client of root, while authentication is enabled.
func (s *served) admin() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.server.Endpoints(), Username: "root", Password: "r"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestLogin(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", "mine")
	s.put("/b/1", "theirs")
	s.once("GET", "/login?next=/alarms", nil, navigate).leads("/alarms") // nobody needs to
	s.users()
	const asked = "/browse?prefix=%2Fa%2F"
	to := "/login?next=" + url.QueryEscape(asked)
	for _, header := range []string{navigate, "Accept: text/html,*/*"} {
		if got := s.once("GET", asked, nil, header).leads(to).header.Values("WWW-Authenticate"); len(got) > 0 {
			t.Errorf("the browser asks for a password by itself: %q", got)
		}
	}
	if got := s.once("GET", asked, nil, "Sec-Fetch-Mode: cors").want(401).header.Get("WWW-Authenticate"); strings.
		Contains(got, "Basic") {
		t.Errorf("the browser asks for a password by itself: %q", got)
	}
	p := s.once("GET", to, nil, navigate).want(200, `name="next" value="`+asked+`"`, `autocomplete="username"`,
		`autocomplete="current-password"`, "<title>Sign in")
	p.without("Sign out", `id="q"`)
	if got := p.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("browsers keep the page: %q", got)
	}
	wrong := s.once("POST", "/login", credentials("alice", "guess", asked), navigate).want(401,
		"The user does not exist, or the password is wrong.", `value="alice"`, `value="`+asked+`"`)
	wrong.without("guess")
	unknown := s.once("POST", "/login", credentials("carol", "guess", asked), navigate).want(401)
	if got := strings.ReplaceAll(unknown.body, "carol", "alice"); got != wrong.body {
		t.Errorf("the page tells that there is no such user: %s", got)
	}
	if cookie := wrong.header.Get("Set-Cookie"); cookie != "" {
		t.Errorf("a session without a password: %q", cookie)
	}
	p = s.once("POST", "/login", credentials("alice", "secret", asked), navigate).leads(asked)
	cookie := p.header.Get("Set-Cookie")
	name := "sqlstore-" + s.url[strings.LastIndex(s.url, ":")+1:] + "="
	if !strings.HasPrefix(cookie, name) || !strings.HasSuffix(cookie, "; Path=/; HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie %q", cookie)
	}
	mine, _, _ := strings.Cut("Cookie: "+cookie, ";")
	s.once("GET", asked, nil, navigate, mine).want(200, "1 key", "<bdi>alice</bdi>", "Sign out")
	s.once("GET", "/object?key=/b/1", nil, navigate, mine).want(403, "Sign out").without("theirs")
	s.once("GET", "/", nil, navigate, mine).want(200, "<bdi>alice</bdi>", "Sign out")
	s.once("GET", "/login?next=/alarms", nil, navigate, mine).leads("/alarms")
	if got := s.suggest("/a/", mine); len(got) != 1 {
		t.Errorf("suggested to alice: %+v", got)
	}
	if !s.log.contains(`msg="console: a user has signed in" user=alice`) || s.log.contains("secret") {
		t.Error("the log does not have what it should")
	}
	// What a program sends counts more than a cookie.
	s.once("GET", "/object?key=/b/1", nil, mine, root).want(200, "theirs", "<bdi>root</bdi>").without("Sign out")
	s.once("POST", keyPath("/delete", "/a/1"), changeForm(2), navigate).leads("/login?next=" +
		url.QueryEscape("/object?key=%2Fa%2F1"))
	s.once("POST", keyPath("/delete", "/a/1"), changeForm(2), navigate, mine).want(403)
	s.once("GET", "/object?key=/a/1", nil, navigate, mine).want(200, "mine")
}

func TestLogout(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	mine, other := s.signIn(), s.signIn()
	none := url.Values{}
	for _, header := range []string{
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://attacker.example", "Origin: null",
	} {
		s.once("POST", "/logout", none, mine, header).want(403)
		s.once("POST", "/login", credentials("alice", "secret"), header).want(403)
	}
	s.once("GET", "/logout", nil, mine).want(404)
	s.once("GET", "/browse?prefix=/a/", nil, mine).want(200)
	p := s.once("POST", "/logout", none, mine, "Origin: "+s.url).leads("/login")
	if cookie := p.header.Get("Set-Cookie"); !strings.Contains(cookie, "=; Path=/; Max-Age=0; HttpOnly") {
		t.Errorf("the cookie %q", cookie)
	}
	s.once("GET", "/browse?prefix=/a/", nil, mine).want(401)
	s.once("GET", "/browse?prefix=/a/", nil, other).want(200)
	s.once("POST", "/logout", none, mine).leads("/login")
}

// A session ends with what it stands for.
func TestEndOfRights(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	ctx := s.within()
	admin := s.admin()
	const page = "/browse?prefix=/a/"
	mine := s.signIn()
	s.once("GET", "/top", nil, mine).want(403)
	s.checked(admin.UserGrantRole(ctx, "alice", "root"))
	s.once("GET", "/top", nil, mine).want(200)
	s.checked(admin.UserRevokeRole(ctx, "alice", "root"))
	s.once("GET", "/top", nil, mine).want(403)
	s.checked(admin.UserChangePassword(ctx, "alice", "secret")) // the same one
	s.once("GET", page, nil, mine, navigate).leads("/login?next=" + url.QueryEscape("/browse?prefix=%2Fa%2F"))
	s.once("GET", "/", nil, mine, navigate).want(200).without("alice")
	mine = s.signIn()
	s.once("GET", page, nil, mine).want(200)
	s.checked(admin.UserDelete(ctx, "alice"))
	s.once("GET", page, nil, mine).want(401)
	s.checked(admin.UserAdd(ctx, "alice", "secret"))
	s.checked(admin.UserGrantRole(ctx, "alice", "a"))
	s.once("GET", page, nil, mine).want(401)
	mine = s.signIn()
	s.once("GET", page, nil, mine).want(200)
	s.checked(admin.AuthDisable(ctx))
	s.once("GET", page, nil, mine).want(200).without("alice</bdi>", "Sign out")
	p := s.once("POST", "/login", credentials("alice", "wrong", "/top")).leads("/top")
	if cookie := p.header.Get("Set-Cookie"); cookie != "" {
		t.Errorf("a session while authentication is disabled: %q", cookie)
	}
	s.checked(s.client.AuthEnable(ctx))
	s.once("GET", page, nil, mine).want(401)
}

// An attacker who has planted a cookie does not know the key of the session that the user begins.
func TestFixation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	first := s.signIn()
	second := s.signIn(first)
	if first == second {
		t.Error("a login goes on with the session before it")
	}
	s.once("GET", "/browse?prefix=/a/", nil, first).want(401)
	s.once("GET", "/browse?prefix=/a/", nil, second).want(200)
	name, _, _ := strings.Cut(second, "=")
	chosen := name + "=AAAAAAAAAAAAAAAAAAAAAAAAAA"
	if third := s.signIn(chosen); third == chosen {
		t.Error("a login takes a key that somebody else has chosen")
	}
	s.once("GET", "/browse?prefix=/a/", nil, chosen).want(401)
	s.once("GET", "/browse?prefix=/a/", nil, chosen, second).want(200) // of another server of the host
	s.once("GET", "/browse?prefix=/a/", nil, second, s.signIn()).want(401)
	s.once("GET", "/browse?prefix=/a/", nil, strings.Replace(second, "=", "1=", 1)).want(401) // of another port
}

// The login leads to the console's own pages only.
func TestReturn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	for next, want := range map[string]string{
		"":                                  "/",
		"/browse?prefix=%2Fa%2F":            "/browse?prefix=%2Fa%2F",
		"/object?key=%2Fb%2F%C3%A4&raw=1":   "/object?key=%2Fb%2F%C3%A4&raw=1",
		"/object?key=x&reveal=1":            "/object?key=x",
		"//evil.example":                    "/",
		"///evil.example":                   "/",
		"/\\evil.example":                   "/",
		"/%5Cevil.example":                  "/",
		"/%2Fevil.example":                  "/",
		"/\t/evil.example":                  "/",
		"/%09/evil.example":                 "/",
		"/.//evil.example":                  "/evil.example",
		"/x/..//evil.example":               "/evil.example",
		"https://evil.example":              "/",
		"https:/browse":                     "/",
		"javascript:alert(1)":               "/",
		"evil.example":                      "/",
		"\\\\evil.example":                  "/",
		"/\r\nSet-Cookie: a=b":              "/",
		"/browse?x=%0d%0aSet-Cookie:%20a=b": "/browse?x=%0D%0ASet-Cookie%3A+a%3Db",
		"/browse#x":                         "/browse",
		"/login?next=/login":                "/",
		"/browse?prefix=" + strings.Repeat("a", 5000): "/",
	} {
		p := s.once("POST", "/login", credentials("alice", "secret", next))
		if got := p.header.Get("Location"); p.code != http.StatusSeeOther || got != want {
			t.Errorf("%.40q leads to %q (%d), want %q", next, got, p.code, want)
		}
		if cookies := p.header.Values("Set-Cookie"); len(cookies) != 1 {
			t.Errorf("%.40q sets %q", next, cookies)
		}
	}
}

// Browsers do not send the cookie with a link from another site, but do with the next request.
func TestLinkFromElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	headers := []string{navigate, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: document"}
	p := s.once("GET", "/login?next=/alarms", nil, headers...).want(200)
	to := "/login?again=1&next=%2Falarms"
	if got := p.header.Get("Refresh"); got != "0; url="+to {
		t.Fatalf("the page leads to %q", got)
	}
	s.once("GET", to, nil, navigate, s.signIn()).leads("/alarms")
	if p := s.once("GET", to, nil, headers...).want(200); p.header.Get("Refresh") != "" {
		t.Error("the page leads on forever")
	}
}

// Names and passwords may be anything.
func TestHostileCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	for _, name := range []string{"a\r\nX-Evil: 1", `"><script>`, "\x00", "\xff", "alice:", ":", "", "\u202e"} {
		p := s.once("POST", "/login", credentials(name, "secret")).want(401)
		if p.without("<script>\""); p.header.Get("X-Evil") != "" {
			t.Errorf("%q is in the header", name)
		}
	}
	s.once("POST", "/login", credentials("alice", strings.Repeat("x", 1<<20))).want(400)
	s.once("POST", "/login", credentials("alice", strings.Repeat("x", 8<<10))).want(401)
	s.once("POST", "/login", url.Values{}).want(401)
	s.once("GET", "/login?name=alice&password=secret", nil).want(200) // a link does not log in
	s.once("POST", "/login?name=alice&password=secret", url.Values{}).want(401)
}

// Streams end with the session.
func TestEndOfStreams(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{CheckEvery: time.Millisecond})
	revision := s.put("/a/1", "1")
	s.users()
	watch := fmt.Sprintf("/watch/events?prefix=/a/&after=%d", revision-1)
	for _, c := range []struct {
		what string
		end  func(mine string)
	}{
		{"sign-out", func(mine string) { s.once("POST", "/logout", url.Values{}, mine).leads("/login") }},
		{"password", func(string) { s.checked(s.admin().UserChangePassword(s.within(), "alice", "secret")) }},
		{"disable", func(string) { s.checked(s.admin().AuthDisable(s.within())) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			mine := s.signIn()
			changes, live := s.stream(watch, mine), s.stream("/live", mine)
			changes.change()
			c.end(mine)
			for _, x := range []*events{changes, live} {
				e, ok := x.next()
				for ok && e.name != "failed" {
					e, ok = x.next()
				}
				if !ok {
					t.Error("the page is not told")
				}
				if e, ok := x.next(); ok {
					t.Errorf("goes on with %+v", e)
				}
			}
		})
	}
}

// Attempts that wait keep nobody from a page.
func TestWaitingLogins(t *testing.T) {
	t.Parallel()
	release, blocked := make(chan struct{}), make(chan struct{}, 64)
	local := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/auth" {
			blocked <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "{}")
	})
	site := over(t, local)
	var logins sync.WaitGroup
	for range 16 {
		logins.Go(func() {
			if answer, err := http.PostForm(site+"/login", credentials("a", "b")); err != nil {
				t.Error(err)
			} else {
				_ = answer.Body.Close()
			}
		})
	}
	for range 16 {
		<-blocked
	}
	if code, body := read(t, site+"/browse"); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
	close(release)
	logins.Wait()
}

// The page says why nobody can sign in for now.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	for code, part := range map[int]string{
		http.StatusTooManyRequests:    "Too many attempts have failed.",
		http.StatusServiceUnavailable: "503 Service Unavailable",
	} {
		site := over(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		answer, err := http.PostForm(site+"/login", credentials("alice", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != code || !strings.Contains(string(body), part) ||
			answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s, %v: %s", answer.Status, err, body)
		}
	}
}

// The overview is for everybody, and leads those to the login whom it does not know.
func TestOverviewLeadsToLogin(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const signIn = `<a href="/login">Sign in</a>`
	s.get("/").want(200).without(signIn)
	s.users()
	s.get("/").want(200, signIn)
	s.get("/", s.signIn()).want(200, "Signed in as", "<bdi>alice</bdi>").without(signIn)
	s.get("/", alice).want(200, "<bdi>alice</bdi>").without(signIn)
}
