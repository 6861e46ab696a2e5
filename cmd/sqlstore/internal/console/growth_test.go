package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// grew counts the growth between two points and waits for its end.
func (s *served) grew(from, to string) {
	s.t.Helper()
	form := url.Values{"from": {from}, "to": {to}}
	s.post("/top/growth?by=kind", form).want(200)
	s.awaitCount()
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/top/growth").want(200, "This reads the whole store twice").without("<table")
	// More than a page at each revision, of which one page is the same.
	for i := range 600 {
		s.put(fmt.Sprintf("/registry/a/%03d", i), "x")
	}
	from := s.put("/registry/gone/1", strings.Repeat("x", 2048))
	for i := range 30 {
		s.put(fmt.Sprintf("/registry/a/%03d-new", i*20), strings.Repeat("x", 1008))
	}
	s.put("/registry/a/599", "xyz")
	s.put(web, configMap(1))
	s.checked(s.client.Delete(s.within(), "/registry/gone/1"))
	to := s.put("<b>/x", "y")
	s.put("/later/x", "y")
	s.grew(fmt.Sprint(from), fmt.Sprint(to))
	s.get(fmt.Sprintf("/top/growth?from=%d&to=%d", from, to)).want(200,
		fmt.Sprintf("From revision %d to %d,", from, to), fmt.Sprintf(`value="%d"`, from), "&lt;b&gt;/",
		`>/registry/a/</bdi></a><td class="number">&#43;30 KiB<td class="number">30 KiB<td class="number">0 B`+
			`<td class="number">&#43;30<td class="number">30<td class="number">0`,
		`>/registry/gone/</bdi></a><td class="number">−2.0 KiB<td class="number">0 B<td class="number">2.0 KiB`+
			`<td class="number">−1<td class="number">0<td class="number">1`).without("/later/")
	s.get("/top/growth?by=kind").want(200, "Kind<th", `<bdi>v1 ConfigMap</bdi><td class="number">&#43;139 B`)
	s.get("/top/growth?by=namespace").want(200, `<bdi>default</bdi><td class="number">&#43;139 B`)
	s.get("/top/growth?by=field").want(200, "Field<th", "<bdi>metadata.namespace<")
	s.grew(fmt.Sprint(to), fmt.Sprint(to))
	s.get("/top/growth").want(200, "Nothing differs.")
	s.grew(fmt.Sprint(to), "")
	s.get("/top/growth").want(200, "/later/")
	s.get("/top").want(200, "/top/growth")
	s.get("/top/report").want(200, fmt.Sprintf("Growth from revision %d to", to), "<bdi>/later/x</bdi>").
		without("Fields of")

	post := func(from, to string) *page { return s.post("/top/growth", url.Values{"from": {from}, "to": {to}}) }
	s.grew("2000-01-01", fmt.Sprint(from)) // the store was empty
	s.get("/top/growth").want(200, fmt.Sprintf("From revision 1 to %d,", from))
	post("", "").want(400, "Say from when on")
	post("noon", "").want(400, "no revision and no time")
	post(fmt.Sprint(to), fmt.Sprint(from)).want(400, "is after the second one")
	if _, err := s.client.Compact(s.within(), to); err != nil {
		t.Fatal(err)
	}
	post(fmt.Sprint(from), "").want(410, fmt.Sprintf("The oldest revision that is left is %d.", to))
	post("2000-01-01", "").want(410, fmt.Sprintf("The oldest revision that is left is %d.", to))
	s.grew(fmt.Sprint(to), "")
	s.get("/top/growth").want(200, "/later/")
}

// Keys that are too long to wait in memory are read in smaller pages, each once.
func TestGrowthOfLongKeys(t *testing.T) {
	t.Parallel()
	s := serve(t)
	key := func(i int) string { return fmt.Sprintf("/long/%02d/%s", i, strings.Repeat("x", 1<<20)) }
	var from int64
	for i := range 10 {
		from = s.put(key(i), "x")
	}
	for i := range 4 {
		s.put(key(3*i), "xyz") // the last one is new
	}
	for i := 10; i < 16; i++ {
		s.put(key(i), "x")
	}
	s.grew(fmt.Sprint(from), "")
	s.get("/top/growth?by=kind").want(200, `<td class="number">&#43;6.0 MiB<td class="number">6.0 MiB`+
		`<td class="number">0 B<td class="number">&#43;6<td class="number">6<td class="number">0`)
}

// A comparison that cannot begin is not shown as the last one.
func TestGrowthWhileCounting(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", "x")
	s.console.BeginCount()
	s.post("/top/growth", url.Values{"from": {"1"}}).want(409, "A count goes on.")
}

// Who may not read everything sees no growth.
func TestGrowthRights(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/b/1", "theirs")
	s.grew("1", "")
	s.get("/top/growth").want(200, "/b/1")
	s.users()
	s.get("/top/growth").want(401)
	s.get("/top/growth", alice).want(403).without("/b/")
	s.post("/top/growth", url.Values{"from": {"1"}}, alice).want(403)
}
