package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
)

// post sends a form, and follows where the answer leads. Headers are as in get.
func (s *served) post(path string, form url.Values, headers ...string) *page {
	s.t.Helper()
	headers = append([]string{"Content-Type: application/x-www-form-urlencoded"}, headers...)
	return s.page(s.send(http.MethodPost, path, strings.NewReader(form.Encode()), headers...))
}

// changeForm is the form of the page that asks before a change, which goes to the path of the key.
func changeForm(now int64, at ...int64) url.Values {
	f := url.Values{"now": {fmt.Sprint(now)}}
	for _, revision := range at {
		f.Set("at", fmt.Sprint(revision))
	}
	return f
}

func keyPath(path, key string) string { return path + "?key=" + url.QueryEscape(key) }

func TestPutBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	lease, err := s.client.Grant(s.within(), 600)
	if err != nil {
		t.Fatal(err)
	}
	first := s.put(web, configMap(3))
	answer, err := s.client.Put(s.within(), web, configMap(5), clientv3.WithLease(lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	second := answer.Header.Revision
	q := url.QueryEscape(web)
	s.get("/object?key="+q).want(200, fmt.Sprintf("/restore?at=%d&amp;key=%s", first, q), "/delete?key="+q).without(
		fmt.Sprintf("/restore?at=%d", second))
	s.get(fmt.Sprintf("/restore?key=%s&at=%d", q, first)).want(200, `method="post"`,
		fmt.Sprintf(`name="now" value="%d"`, second), fmt.Sprintf(`name="at" value="%d"`, first),
		`-  speed: &#34;5&#34;`, `&#43;  speed: &#34;3&#34;`)
	s.get(fmt.Sprintf("/restore?key=%s&at=%d", q, second)).want(200, "Nothing differs.")
	// Without users, nobody can be sure of a name.
	s.post(keyPath("/restore", web), changeForm(second, first), root).want(200, "speed: &#34;3&#34;",
		"the newest")
	if !s.log.contains(`"console: a version was put back" key=` + web + ` user="" address=127.0.0.1:`) {
		t.Error("the log does not say what was put back")
	}
	now, err := s.client.Get(s.within(), web)
	if err != nil || string(now.Kvs[0].Value) != configMap(3) || now.Kvs[0].Lease != int64(lease.ID) {
		t.Fatalf("%v, %v; want the first value, with the lease", now.Kvs, err)
	}
	// Somebody else was faster: nothing changes.
	s.post(keyPath("/restore", web), changeForm(second, second)).want(http.StatusConflict, "nothing was done",
		"/object?key="+q)
	s.post(keyPath("/delete", web), changeForm(second)).want(http.StatusConflict)
	third := now.Kvs[0].ModRevision
	s.get("/delete?key="+q).want(200, fmt.Sprintf(`name="now" value="%d"`, third), "-  speed: &#34;3&#34;")
	s.post(keyPath("/delete", web), changeForm(third)).want(200, "Deleted at revision")
	if !s.log.contains(`"console: a key was deleted" key=` + web) {
		t.Error("the log does not say what was deleted")
	}
	s.post(keyPath("/delete", web), changeForm(0)).want(404)
	s.get("/delete?key=" + q).want(404)
	s.get(fmt.Sprintf("/restore?key=%s&at=%d", q, second)).want(200, `name="now" value="0"`, "creates the key again")
	s.post(keyPath("/restore", web), changeForm(0, second)).want(200, "speed: &#34;5&#34;")
	s.post(keyPath("/restore", web), changeForm(0, second)).want(http.StatusConflict) // it exists again
	empty := s.put("empty", "")
	s.put("empty", "full")
	s.post(keyPath("/restore", "empty"), changeForm(empty+1, empty)).want(200, "0 B", "the newest")
	for name, form := range map[string]url.Values{
		"no key": {"now": {"3"}, "at": {"2"}}, "no revision": {"key": {web}, "at": {"2"}},
	} {
		if p := s.post("/restore", form); p.code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, p.code)
		}
	}
	s.post(keyPath("/restore", web), changeForm(second)).want(404)
	s.post(keyPath("/restore", web), changeForm(second, 1)).want(404)
}

// Pages of other sites cannot change anything with the rights of somebody who is logged in here.
func TestForeignForms(t *testing.T) {
	t.Parallel()
	s := serve(t)
	revision := s.put(web, configMap(3))
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
		{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
		{"Origin: http://attacker.example"},
		{"Origin: null"},
	} {
		s.post(keyPath("/delete", web), changeForm(revision), headers...).want(http.StatusForbidden)
	}
	s.get("/delete?key=" + url.QueryEscape(web) + fmt.Sprintf("&now=%d", revision)).want(200) // only asks
	s.post(keyPath("/delete", web), changeForm(revision), "Sec-Fetch-Site: same-origin", "Origin: "+s.url).want(200,
		"Deleted at revision")
}

// Without the setting there is no form, and no address that changes anything.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{})
	first := s.put(web, configMap(3))
	second := s.put(web, configMap(5))
	q := url.QueryEscape(web)
	s.get("/object?key="+q).want(200, "the newest").without("/restore", "/delete")
	s.get(fmt.Sprintf("/restore?key=%s&at=%d", q, first)).want(404)
	s.get("/delete?key=" + q).want(404)
	s.post(keyPath("/restore", web), changeForm(second, first)).want(http.StatusMethodNotAllowed)
	s.post(keyPath("/delete", web), changeForm(second)).want(http.StatusMethodNotAllowed)
	s.get("/object?key="+q).want(200, "speed: &#34;5&#34;", "the newest")
}

// The address of a form has the key: no field of a browser's form holds all bytes that a key can have.
func TestChangeOfAKeyOfAnyBytes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, key := range []string{"/x/a\nb", "/x/a\r\nb", "/x/bad\xff\xfe", "/x/a\x00b"} {
		first := s.put(key, "before")
		second := s.put(key, "after")
		q := url.QueryEscape(key)
		s.get(fmt.Sprintf("/restore?key=%s&at=%d", q, first)).want(200, `action="/restore?key=`+q+`"`).
			without(`name="key"`)
		s.post(keyPath("/restore", key), changeForm(second, first)).want(200, "before")
		s.get("/delete?key="+q).want(200, `action="/delete?key=`+q+`"`).without(`name="key"`)
		s.post(keyPath("/delete", key), changeForm(second+1)).want(200, "Deleted at revision")
		s.get("/object?key="+q).want(200, `name="q" type="search" value=""`)
	}
}
