package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first, second := s.put(web, configMap(3)), s.put(web, configMap(5))
	object := "/object?key=" + url.QueryEscape(web)
	p := s.get(object).want(200, "v1 ConfigMap, json", "speed: &#34;5&#34;", "the newest", "created",
		"data.speed: &#34;3&#34; → &#34;5&#34;", fmt.Sprintf("/diff?from=%d&amp;key=", first))
	p.without("  speed: &#34;3&#34;")
	p.want(200, fmt.Sprintf(`data-events="/watch/events?prefix=%s" data-after="%d"`, url.QueryEscape(web), second))
	s.get(fmt.Sprintf("%s&at=%d", object, first)).want(200, "speed: &#34;3&#34;").without("the newest", "data-events")
	s.get(object + "&reveal=1").want(200).without("data-events")
	s.get(object+"&at=1").want(200, "did not exist then")
	s.get(object+"&raw=1").want(200, "00000000  7b 22 61")
	diff := fmt.Sprintf("/diff?key=%s&from=%d&to=%d", url.QueryEscape(web), first, second)
	s.get(diff).want(200, `<span class="removed">-  speed: &#34;3&#34;`,
		`<span class="added">&#43;  speed: &#34;5&#34;`)
	if _, err := s.client.Delete(s.within(), web); err != nil {
		t.Fatal(err)
	}
	s.get(object).want(200, "Deleted at revision", "deleted")
	s.get("/object?key=none").want(404, "There is no key none")
	s.get("/object").want(400, "names no key")
	s.get("/object?key=p/").want(400, "no objects whose keys end in a slash")
	s.get(object + "&at=1000000").want(504)
	s.get("/diff?key="+url.QueryEscape(web)+"&from=1").want(200, "Nothing differs")
	s.get("/diff?from=1").want(400, "names no key")
}

// A key with more versions than a page shows: the newest ones are there, the others counted.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	last := int64(0)
	for i := range 130 {
		last = s.put("hot", fmt.Sprint("value ", i))
	}
	s.get("/object?key=hot").want(200, "value 129", "the newest", "Older versions are not shown",
		fmt.Sprintf("at=%d&amp;", last-99), fmt.Sprintf("from=%d&amp;", last-99)).without(
		fmt.Sprintf("at=%d&amp;", last-100))
	s.get(fmt.Sprintf("/object?key=hot&at=%d", last-120)).want(200, "value 9\n").without("the newest")
	s.get(fmt.Sprintf("/diff?key=hot&from=%d&to=%d", last-120, last)).want(200, "-value 9\n", "&#43;value 129\n")
	if _, err := s.client.Compact(s.within(), last); err != nil {
		t.Fatal(err)
	}
	s.put("other", "x")
	s.get("/object?key=hot").want(200, "value 129", "the newest").without("Older versions")
	s.get(fmt.Sprintf("/object?key=hot&at=%d", last-1)).want(410, "is not in the history that is left")
}

// The oldest version that is left is older than all revisions that can be read.
func TestOldestVersion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("cold", "lost")
	old := s.put("cold", "old value")
	compacted := s.put("other", "x")
	updated := s.put("cold", "new value")
	if _, err := s.client.Compact(s.within(), compacted); err != nil {
		t.Fatal(err)
	}
	s.get("/object?key=cold").want(200, "new value", fmt.Sprintf("/object?at=%d&amp;key=cold", old),
		fmt.Sprintf("/restore?at=%d&amp;key=cold", old))
	s.get(fmt.Sprintf("/object?key=cold&at=%d", old)).want(200, "old value").without("the newest")
	s.get(fmt.Sprintf("/diff?key=cold&from=%d&to=%d", old, updated)).want(200, "-old value", "&#43;new value")
	s.get(fmt.Sprintf("/restore?key=cold&at=%d", old)).want(200, "&#43;old value")
	s.post(keyPath("/restore", "cold"), changeForm(updated, old)).want(200, "old value", "the newest")
	s.get(fmt.Sprintf("/object?key=cold&at=%d", old-1)).want(410)
}

// Keys and values that try to be part of the page, to hide, or to look like others.
func TestHostileData(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const script, turned = `<script>alert(1)</script>`, "a\u202egnp.exe"
	for _, key := range []string{script, turned, "\xff\xfe", `"onclick="x`, "javascript:x", "a\x00b", "a\nb", "../x"} {
		s.put("/x/"+key, script+turned+"</pre>")
		p := s.get("/object?key=" + url.QueryEscape("/x/"+key))
		if key == "../x" { // the API refuses such keys
			p.want(400)
			continue
		}
		_, p.body, _ = strings.Cut(p.body, "<main") // the search field before it has what was asked for, as it is
		p.want(200, `&lt;script&gt;alert(1)&lt;/script&gt;a\u202egnp.exe&lt;/pre&gt;`).without(script, "\u202e", "\x00")
	}
	s.get("/browse?prefix=/x/").want(200, `a\u202egnp.exe`, `\xff\xfe`, `a\x00b`, `a\nb`).without(script, "\u202e",
		"\x00", `"onclick="x`, `href="javascript`)
	large := strings.Repeat("x", 1_500_000)
	for i := range 12 { // 18 MB: more than a page holds while it reads
		s.put("large", fmt.Sprint(i, large[10:]))
	}
	if p := s.get("/object?key=large").want(200, "11xxx", "the newest", "Older versions"); len(p.body) > 1<<20 {
		t.Errorf("%d bytes", len(p.body))
	}
	if p := s.get("/object?key=large&raw=1").want(200, "are not shown"); len(p.body) > 1<<20 {
		t.Errorf("%d bytes", len(p.body))
	}
}
