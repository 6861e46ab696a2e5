package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// counted starts a count and waits for its end.
func (s *served) counted(headers ...string) {
	s.t.Helper()
	s.post("/top", url.Values{}, headers...).want(200)
	s.awaitCount(headers...)
}

// awaitCount waits for the end of a count.
func (s *served) awaitCount(headers ...string) {
	s.t.Helper()
	x := s.stream("/top/progress", headers...)
	for e, ok := x.next(); ; e, ok = x.next() {
		if !ok || e.name == "failed" {
			s.t.Fatalf("no end of the count: %+v", e)
		}
		if e.name == "done" {
			return
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/top/report").want(404, "Nothing was counted yet")
	s.get("/top").want(200, "This reads the whole store", `method="post"`).without("<table")
	for i := range 3 {
		s.put(fmt.Sprint("/registry/pods/default/", i), strings.Repeat("x", 1<<20))
	}
	for i := range 40 {
		s.put(web, configMap(i))
	}
	s.put("gone", "x")
	if _, err := s.client.Delete(s.within(), "gone"); err != nil {
		t.Fatal(err)
	}
	hostile := "a<\u202e/x"
	last := s.put(hostile, "x")
	s.counted()
	const pods, maps = "/browse?prefix=%2Fregistry%2Fpods%2F", "/browse?prefix=%2Fregistry%2Fconfigmaps%2F"
	p := s.get("/top").want(200, fmt.Sprintf("Counted at revision %d, ", last), "Count again", pods,
		`>3<td class="number">3.0 MiB<td class="number">3<td class="number">0`,
		`>1<td class="number">140 B<td class="number">40<td class="number">0`, `a&lt;\u202e/`,
		`>0<td class="number">0 B<td class="number">1<td class="number">1`)
	if strings.Index(p.body, pods) > strings.Index(p.body, maps) {
		t.Error("the largest do not come first")
	}
	p = s.get("/top?sort=writes").want(200, `aria-sort="descending"><a href="/top?by=prefix&amp;sort=writes">`)
	if strings.Index(p.body, pods) < strings.Index(p.body, maps) {
		t.Error("those that write most do not come first")
	}
	s.get("/top?by=kind").want(200, "Kind<th", "v1 ConfigMap", "(no Kubernetes object)").without(pods)
	s.get("/top?by=namespace&sort=nothing").want(200, "<bdi>default")
	s.get("/top?by=kind").want(200, "/top?by=field&amp;kind=v1&#43;ConfigMap&amp;sort=bytes")
	s.get("/top?by=field").want(200, "Field<th", `<option value="">all`, "<bdi>data<", "<bdi>metadata.namespace<",
		"(not readable)")
	s.get("/top?by=field&kind=v1+ConfigMap").want(200, `<option value="v1 ConfigMap" selected>`, "<bdi>data<",
		`kind=v1&#43;ConfigMap&amp;sort=keys`).without("<bdi>(not readable)<")
	s.get("/top").want(200, `href="/top/report"`)
	report := s.get("/top/report").want(200, "Top of ", fmt.Sprintf("Revision %d; writes since", last), "By namespace",
		"Fields of v1 ConfigMap", "<bdi>/registry/pods/</bdi><td>3<td>3.0 MiB", `a&lt;\u202e/`)
	report.without("<script", "Growth")
	named := fmt.Sprintf(`attachment; filename="sqlstore-top-%d.html"`, last)
	if h := report.header; h.Get("Content-Disposition") != named ||
		!strings.Contains(h.Get("Content-Security-Policy"), "style-src 'sha256-") ||
		strings.Contains(h.Get("Content-Security-Policy"), "'self'") {
		t.Errorf("headers of the report: %v", h)
	}
	s.put("later", "x")
	s.get("/top").want(200, fmt.Sprintf("Counted at revision %d, ", last)).without("later")
	s.counted()
	s.get("/top").want(200, "later")
	s.post("/top", url.Values{}, "Sec-Fetch-Site: cross-site").want(http.StatusForbidden)
}

// What is compacted is not counted.
func TestTopCompacted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for i := range 5 {
		s.put("a/b/c", fmt.Sprint(i))
	}
	last := s.put("a/b/d", "x")
	if _, err := s.client.Compact(s.within(), last); err != nil {
		t.Fatal(err)
	}
	s.counted()
	s.get("/top").want(200, fmt.Sprintf("writes since revision %d", last),
		`>2<td class="number">12 B<td class="number">0<td class="number">0`)
}

// Who may not read everything sees no count, not even somebody else's.
func TestTopRights(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/b/1", "theirs")
	s.counted()
	s.users()
	s.get("/top").want(401)
	s.get("/top", alice).want(403).without("/b/")
	s.get("/top/report", alice).want(403).without("/b/")
	s.post("/top", url.Values{}, alice).want(403)
	if e, _ := s.stream("/top/progress", alice).next(); e.name != "failed" {
		t.Errorf("%+v", e)
	}
	s.counted(root)
	s.get("/top", root).want(200, "/b/1")
}

// alice and root are the headers of users that users adds.
const (
	alice = "Authorization: Basic YWxpY2U6c2VjcmV0"
	root  = "Authorization: Basic cm9vdDpy"
)

// users enables authentication, with alice, who may read what begins with /a/, and these keys.
func (s *served) users(keys ...string) {
	s.t.Helper()
	ctx := s.within()
	s.checked(s.client.UserAdd(ctx, "root", "r"))
	s.checked(s.client.UserGrantRole(ctx, "root", "root"))
	s.checked(s.client.UserAdd(ctx, "alice", "secret"))
	s.checked(s.client.RoleAdd(ctx, "a"))
	s.checked(s.client.RoleGrantPermission(ctx, "a", "/a/", "/a0", clientv3.PermissionType(clientv3.PermRead)))
	for _, key := range keys {
		s.checked(s.client.RoleGrantPermission(ctx, "a", key, "", clientv3.PermissionType(clientv3.PermRead)))
	}
	s.checked(s.client.UserGrantRole(ctx, "alice", "a"))
	s.checked(s.client.AuthEnable(ctx))
}
