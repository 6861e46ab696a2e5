package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := s.get("/").want(200, "Ready", "True", "Oldest readable revision", "Keys")
	if policy := p.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	for _, name := range []string{"console.css", "console.js", "overview.css", "overview.js", "uplot/uPlot.min.css"} {
		p.want(200, "/static/"+name)
		s.get("/static/" + name).want(200)
	}
	s.get("/nothing").want(404, "404 Not Found")
	for _, path := range []string{"/static/nothing", "/static/", "/static"} {
		s.get(path).want(404)
	}
}

// Pages of other sites, and names that resolve to this machine, get nothing.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/browse", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors").want(403)
	s.get("/browse", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe").want(403)
	s.get("/browse", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").want(200)
	s.get("/browse", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors").want(200)
	s.get("/browse", "Host: attacker.example").want(http.StatusMisdirectedRequest)
	answer, err := http.Post(s.url+"/browse", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered with %d", answer.StatusCode)
	}
}

// The search field leads to a key, or to what begins with the text.
func TestJump(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put(web, configMap(3))
	s.put(web+"2", configMap(3))
	q := url.QueryEscape(web)
	s.get("/go?q="+q).want(200, "v1 ConfigMap")
	s.get("/go?q="+q[:len(q)-1]).want(200, "2 keys")
	s.get("/go?q=").want(200, "2 keys", "<title>All keys")
	s.get("/go?q=leases").want(200, "<title>Leases")
	s.put("users", "a key that is called like a page")
	s.get("/go?q=users").want(200, "called like a page")
	s.get("/go?q=ConfigMaps").want(200, "<title>/registry/configmaps/")
}

// Pages of the present do not say that they show the past, and a point in the future is named.
func TestPagesOfThePresent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a", "x")
	for _, path := range []string{"/", "/leases", "/users", "/alarms", "/top", "/watch"} {
		s.get(path+"?at=1").want(200, `name="at" value=""`)
	}
	s.get("/browse?at=99999").want(504, "Revision 99,999 does not exist yet. The newest is 2.",
		`name="at" value="99999"`)
	for _, key := range []string{"/h/.", "/h/../x", "."} {
		s.get("/object?key="+url.QueryEscape(key)).want(400, "or have . or .. between slashes")
	}
}

// While users have rights, a page shows what its user may read.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	mine := s.put("/a/1", "mine")
	s.put("/b/1", "theirs")
	s.users()
	p := s.get("/browse?prefix=/a/").want(401)
	if got := p.header.Values("WWW-Authenticate"); !slices.ContainsFunc(got, func(c string) bool {
		return strings.HasPrefix(c, "Basic ")
	}) {
		t.Errorf("the browser does not ask for a password: %q", got)
	}
	s.get("/browse?prefix=/a/", alice).want(200, "1 key")
	s.get("/object?key=/a/1", alice).want(200, "mine")
	s.get("/object?key=/b/1", alice).want(403).without("theirs")
	s.get("/browse", alice).want(403)
	s.post(keyPath("/delete", "/a/1"), changeForm(mine), alice).want(403)
	s.post(keyPath("/delete", "/b/1"), changeForm(mine+1), root).want(200)
	if !s.log.contains(`"console: a key was deleted" key=/b/1 user=root`) {
		t.Error("the log does not say who deleted a key")
	}
	if got := s.suggest("/a/", alice); len(got) != 1 || got[0].Text != "/a/1" {
		t.Errorf("suggested to alice: %+v", got)
	}
	for _, headers := range [][]string{{alice}, nil} {
		if got := s.suggest("/b/", headers...); len(got) != 0 {
			t.Errorf("suggested without the right: %+v", got)
		}
	}
	s.get("/object?key=/a/1", "Authorization: Basic YWxpY2U6d3Jvbmc=").want(401).without("mine")
}

// A right to read a single key shows that key, its versions and its past, but not what begins with its name.
func TestRightToOneKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := s.put("/b/1", "before")
	s.put("/b/1", "after")
	s.put("/b/12", "theirs")
	gone := s.put("/b/3", "gone")
	s.checked(s.client.Delete(s.within(), "/b/3"))
	s.users("/b/1", "/b/3")
	s.get("/object?key=/b/1", alice).want(200, "after")
	s.get(fmt.Sprintf("/object?key=/b/1&at=%d", first), alice).want(200, "before")
	s.get(fmt.Sprintf("/diff?key=/b/1&from=%d&to=%d", first, first+1), alice).want(200, "before", "after")
	s.get(fmt.Sprintf("/object?key=/b/3&at=%d", gone), alice).want(200, "gone")
	s.get("/object?key=/b/3", alice).want(200, "deleted")
	s.get("/go?q=/b/1", alice).want(200, "<title>/b/1")
	s.get("/go?q=/b/12", alice).want(403)
	s.get("/object?key=/b/12", alice).want(403).without("theirs")
	s.get("/browse?prefix=/b/1", alice).want(403).without("theirs")
}
