package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
)

const testTimeout = 2 * time.Minute

// logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) contains(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// served is a server with a console.
type served struct {
	t      *testing.T
	url    string
	client *clientv3.Client
	log    *logged
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, log: &logged{}}
	log := slog.New(slog.NewTextHandler(s.log, nil))
	server, err := sqlstore.Start(t.Context(), sqlstore.Config{
		ListenConsoleURLs: []string{"http://127.0.0.1:0"}, Logger: log, BcryptCost: 4,
		Console: func(local http.Handler) http.Handler { return console.New(local, log) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = server.ConsoleEndpoints()[0]
	s.client, err = clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

func (s *served) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	s.t.Cleanup(cancel)
	return ctx
}

// put writes a key and returns its revision.
func (s *served) put(key, value string) int64 {
	s.t.Helper()
	answer, err := s.client.Put(s.within(), key, value)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Header.Revision
}

// page is an answer of the console.
type page struct {
	t      *testing.T
	code   int
	header http.Header
	body   string
}

// get requests a page. Headers are "Name: value"; that of Host is the request's.
func (s *served) get(path string, headers ...string) *page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.within(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &page{s.t, answer.StatusCode, answer.Header, string(body)}
}

// want checks the status and that the page has some texts.
func (p *page) want(code int, texts ...string) *page {
	p.t.Helper()
	if p.code != code {
		p.t.Fatalf("answered %d, want %d: %s", p.code, code, p.body)
	}
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			p.t.Errorf("the page lacks %q: %s", text, p.body)
		}
	}
	return p
}

func (p *page) without(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if strings.Contains(p.body, text) {
			p.t.Errorf("the page has %q: %s", text, p.body)
		}
	}
}

const (
	web   = "/registry/configmaps/default/web"
	token = "/registry/secrets/default/token"
)

func configMap(speed int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"default"},`+
		`"data":{"speed":"%d"}}`, speed)
}

func TestOverview(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := s.get("/").want(200, "Ready", "True", "Oldest readable revision", "Keys")
	if policy := p.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	for _, name := range []string{"console.css", "console.js"} {
		p.want(200, "/static/"+name)
		s.get("/static/" + name).want(200)
	}
	s.get("/nothing").want(404, "404 Not Found")
	s.get("/static/nothing").want(404)
}

func TestBrowse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	before := s.put(web, configMap(3))
	s.put("/registry/pods/default/a", "x")
	s.put("/registry/pods/default/b", "x")
	s.get("/browse").want(200, "3 keys", `href="/browse?prefix=%2Fregistry%2F"`)
	level := s.get("/browse?prefix=/registry/").want(200, "3 keys", "configmaps/", "pods/", "class=\"number\">2\n",
		`href="/browse?prefix=%2Fregistry%2Fpods%2F"`)
	level.without("/object?")
	s.get("/browse?prefix=/registry/pods/default/").want(200, `href="/object?key=%2Fregistry%2Fpods%2Fdefault%2Fa"`)
	s.get("/browse?prefix=/none/").want(200, "No key begins with this")
	s.get(fmt.Sprintf("/browse?prefix=/registry/&at=%d", before)).want(200, "1 key", "configmaps/",
		fmt.Sprint("as of revision ", before), "&amp;prefix=%2Fregistry%2Fconfigmaps%2F").without("pods/")
	s.get("/browse?prefix=/registry/&at=2100-01-01").want(200, "3 keys")
	s.get("/browse?at=yesterday").want(400, "no revision and no time")
	s.get("/browse?at=2000-01-01").want(410)
	s.get("/browse?at=1000000").want(504)
}

// A level of many entries comes in pages, all at the revision of the first one.
func TestBrowsePages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var all []clientv3.Op
	for i := range 100 {
		all = append(all, clientv3.OpPut(fmt.Sprintf("a%03d", i), "x"), clientv3.OpPut(fmt.Sprintf("b%03d/x", i), "x"),
			clientv3.OpPut(fmt.Sprintf("c%03d", i), "x"))
	}
	for part := range slices.Chunk(all, 100) {
		if _, err := s.client.Txn(s.within()).Then(part...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	first := s.get("/browse").want(200, "300 keys", "a000", "b099/", "Next page")
	first.without("c000", "First page")
	s.put("a", "new")
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	s.get(strings.ReplaceAll(next, "&amp;", "&")).want(200, "300 keys", "c000", "c099", "First page").without("b099/",
		"Next page")
}

func TestObject(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first, second := s.put(web, configMap(3)), s.put(web, configMap(5))
	object := "/object?key=" + url.QueryEscape(web)
	p := s.get(object).want(200, "v1 ConfigMap, json", "speed: &#34;5&#34;", "the newest", "created",
		"data.speed: &#34;3&#34; → &#34;5&#34;", fmt.Sprintf("/diff?from=%d&amp;key=", first))
	p.without("  speed: &#34;3&#34;")
	s.get(fmt.Sprintf("%s&at=%d", object, first)).want(200, "speed: &#34;3&#34;").without("the newest")
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

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t)
	secret := func(password string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"token","annotations":{` +
			`"kubectl.kubernetes.io/last-applied-configuration":"` + password + `-again"}},"data":{"password":"` +
			password + `"}}`
	}
	first, second := s.put(token, secret("Zmlyc3Q=")), s.put(token, secret("c2Vjb25k"))
	object := "/object?key=" + url.QueryEscape(token)
	for _, path := range []string{
		object, object + "&raw=1", fmt.Sprintf("%s&at=%d", object, first),
		fmt.Sprintf("/diff?key=%s&from=%d&to=%d", url.QueryEscape(token), first, second),
	} {
		s.get(path).want(200, "hidden").without("Zmlyc3Q", "c2Vjb25k", "5a 6d 6c", "-again")
	}
	s.get(object).want(200, "updated: data.password")
	if s.log.contains("values of a Secret") {
		t.Error("the log says that values were shown")
	}
	s.get(object+"&reveal=1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").
		want(200).without("c2Vjb25k")
	for key, value := range map[string]string{
		"/registry/secrets/default/list": `{"apiVersion":"v1","kind":"List","items":[{"data":{"p":"c2Vjb25k"}}]}`,
		"/registry/secrets/default/cut":  `{"apiVersion":"v1","kind":"Secret","data":{"password":"c2Vjb25k`,
		"/registry/secrets/default/text": "c2Vjb25k",
		"/registry/elsewhere":            `{"apiVersion":"v2","kind":"Secret","data":"c2Vjb25k"}`,
		"/registry/lists":                `{"apiVersion":"v1","kind":"SecretList","items":[{"data":{"p":"c2Vjb25k"}}]}`,
	} {
		s.put(key, value)
		for _, raw := range []string{"", "&raw=1"} {
			s.get("/object?key="+url.QueryEscape(key)+raw).want(200, "hidden").without("c2Vjb25k", "63 32 56")
		}
	}
	encoded := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "proto", Annotations: map[string]string{"applied": "in-full"}},
		Data:       map[string][]byte{"password": []byte("second")},
	}
	var stored bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(encoded, &stored); err != nil {
		t.Fatal(err)
	}
	s.put("/registry/secrets/default/proto", stored.String())
	s.get("/object?key=/registry/secrets/default/proto").want(200, "v1 Secret, protobuf", "password: hidden").without(
		"c2Vjb25k", "second", "in-full")
	if s.log.contains("values of a Secret") {
		t.Error("the log says that values were shown")
	}
	s.get(object+"&reveal=1").want(200, "c2Vjb25k").without("are hidden")
	if !s.log.contains("the values of a Secret are shown") {
		t.Error("the log does not say that values were shown")
	}
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
	for i := range 8 { // more than a page reads
		s.put("large", fmt.Sprint(i, large[10:]))
	}
	if p := s.get("/object?key=large").want(200, "7xxx", "the newest", "Older versions"); len(p.body) > 1<<20 {
		t.Errorf("%d bytes", len(p.body))
	}
	if p := s.get("/object?key=large&raw=1").want(200, "are not shown"); len(p.body) > 1<<20 {
		t.Errorf("%d bytes", len(p.body))
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
}

// While users have rights, a page shows what its user may read.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", "mine")
	s.put("/b/1", "theirs")
	ctx := s.within()
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.client.UserAdd(ctx, "root", "r"))
	check(s.client.UserGrantRole(ctx, "root", "root"))
	check(s.client.UserAdd(ctx, "alice", "secret"))
	check(s.client.RoleAdd(ctx, "a"))
	check(s.client.RoleGrantPermission(ctx, "a", "/a/", "/a0", clientv3.PermissionType(clientv3.PermRead)))
	check(s.client.UserGrantRole(ctx, "alice", "a"))
	check(s.client.AuthEnable(ctx))
	p := s.get("/browse?prefix=/a/").want(401)
	if got := p.header.Values("WWW-Authenticate"); !slices.ContainsFunc(got, func(c string) bool {
		return strings.HasPrefix(c, "Basic ")
	}) {
		t.Errorf("the browser does not ask for a password: %q", got)
	}
	const alice = "Authorization: Basic YWxpY2U6c2VjcmV0"
	s.get("/browse?prefix=/a/", alice).want(200, "1 key")
	s.get("/object?key=/a/1", alice).want(200, "mine")
	s.get("/object?key=/b/1", alice).want(403).without("theirs")
	s.get("/browse", alice).want(403)
	s.get("/object?key=/a/1", "Authorization: Basic YWxpY2U6d3Jvbmc=").want(401).without("mine")
}
