package restapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// eventJSON is a line of a watch.
type eventJSON struct {
	Type     string
	Object   json.RawMessage
	Previous json.RawMessage
}

func (e eventJSON) item(t testing.TB) (i itemJSON) {
	t.Helper()
	if err := json.Unmarshal(e.Object, &i); err != nil {
		t.Fatal(err)
	}
	return i
}

func (e eventJSON) version(t testing.TB) int64 {
	t.Helper()
	version, err := strconv.ParseInt(e.item(t).Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// String returns TYPE key@version=value, without missing parts.
func (e eventJSON) String() string {
	var i itemJSON
	if err := json.Unmarshal(e.Object, &i); err != nil {
		return err.Error()
	}
	s := e.Type
	if e.Type == "ERROR" {
		var st statusJSON
		if err := json.Unmarshal(e.Object, &st); err != nil {
			return err.Error()
		}
		return fmt.Sprint(s, " ", st.Code, " ", st.Reason)
	}
	s += " " + i.Metadata.Key + "@" + i.Metadata.ResourceVersion
	switch {
	case i.Value != nil:
		s += "=" + string(i.Value)
	case i.ValueBase64 != nil:
		s += "=base64 " + *i.ValueBase64
	}
	if len(i.Metadata.Annotations) > 0 {
		s += fmt.Sprint(" ", i.Metadata.Annotations)
	}
	return s
}

// watched is a watch.
type watched struct {
	t     testing.TB
	resp  *http.Response
	lines *bufio.Reader
}

func (s *served) watch(path string) *watched {
	s.t.Helper()
	return s.watches(path, s.open("GET", path, ""))
}

// watches returns the watch of a response.
func (s *served) watches(path string, resp *http.Response) *watched {
	s.t.Helper()
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s: %s %s", path, resp.Status, body)
	}
	return &watched{s.t, resp, bufio.NewReader(resp.Body)}
}

// next returns the next event; io.EOF when the watch has ended properly.
func (w *watched) next() (e eventJSON, err error) {
	w.t.Helper()
	line, err := w.lines.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			w.t.Fatalf("half a line %q, %v", line, err)
		}
		return e, err
	}
	if err := json.Unmarshal(line, &e); err != nil {
		w.t.Fatalf("%v: %q", err, line)
	}
	return e, nil
}

func (w *watched) want(events ...string) {
	w.t.Helper()
	for _, want := range events {
		e, err := w.next()
		if err != nil {
			w.t.Fatalf("%v, want %s", err, want)
		}
		if got := e.String(); got != want {
			w.t.Fatalf("%s, want %s", got, want)
		}
	}
}

func (w *watched) wantEnd() {
	w.t.Helper()
	if e, err := w.next(); !errors.Is(err, io.EOF) {
		w.t.Fatalf("%s, %v, want the end", e, err)
	}
}

func (w *watched) close() { _ = w.resp.Body.Close() }

const endOfState = " map[k8s.io/initial-events-end:true]"

func TestWatch(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("p/a", "1")       // 2
	s.write("p/b", "\x00")    // 3
	s.write("q", "1")         // 4
	s.write("p/a", "[1,\n2]") // 5
	state := s.watch("/v1/objects/p/?watch=true")
	whatever := s.watch("/v1/objects/p/?watch=1&resourceVersion=0")
	history := s.watch("/v1/objects/p/?watch=true&resourceVersion=2")
	key := s.watch("/v1/objects/p/a?watch&resourceVersion=1")
	none := s.watch("/v1/objects/p?watch=true")
	future := s.watch("/v1/objects/p/?watch=true&resourceVersion=6")
	now := s.watch("/v1/objects/p/?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	marked := s.watch(
		"/v1/objects/p/?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	keyMarked := s.watch(
		"/v1/objects/p/a?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" +
			"&allowWatchBookmarks=true&resourceVersion=5")
	s.remove("p/a")      // 6
	s.write("p/a", "2")  // 7
	s.write("pp", "1")   // 8
	s.write("p/z/y", "") // 9
	s.write("p", "4")    // 10

	const first, second = "ADDED p/a@5=[1, 2]", "ADDED p/b@3=base64 AA=="
	after := []string{"DELETED p/a@6=[1, 2]", "ADDED p/a@7=2", "ADDED p/z/y@9=base64 "}
	for _, w := range []*watched{state, whatever} {
		w.want(first, second)
		w.want(after...)
	}
	history.want("ADDED p/b@3=base64 AA==", "MODIFIED p/a@5=[1, 2]")
	history.want(after...)
	key.want("ADDED p/a@2=1", "MODIFIED p/a@5=[1, 2]", after[0], after[1])
	none.want("ADDED p@10=4")
	future.want(after[1:]...)
	now.want(after...)
	marked.want(first, second, "BOOKMARK @5"+endOfState)
	marked.want(after...)
	keyMarked.want(first, "BOOKMARK @5"+endOfState, after[0], after[1])

	// A watch that resumes another gets the events after it, once.
	s.watch("/v1/objects/p/?watch=true&resourceVersion=6").want(after[1:]...)
	s.watch("/v1/objects/?watch=true&resourceVersion=7").want("ADDED pp@8=1", after[2], "ADDED p@10=4")
	if d := s.do("GET", "/v1/objects/p/a", "").item(); d.Metadata.CreateRevision != "7" {
		t.Errorf("%+v", d)
	}
}

// What is written while the state is being sent follows it.
func TestWriteDuringTheState(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	const n = 32 // MiB: more than the kernel's buffers hold for a client that does not read
	value := `"` + strings.Repeat("x", 1<<20) + `"`
	for i := range n {
		s.write(fmt.Sprintf("p/%02d", i), value)
	}
	w := s.watch("/v1/objects/p/?watch=true")
	s.write("p/00", "2")
	for range n {
		if e, err := w.next(); err != nil || e.Type != "ADDED" {
			t.Fatalf("%s %v", e.Type, err)
		}
	}
	w.want(fmt.Sprintf("MODIFIED p/00@%d=2", n+2))
}

func TestDeletedShowsTheLastState(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("k", "1")
	s.write("k", "2")
	s.remove("k")
	w := s.watch("/v1/objects/k?watch=true&resourceVersion=3")
	e, err := w.next()
	if err != nil {
		t.Fatal(err)
	}
	if i := e.item(t); e.Type != "DELETED" || string(i.Value) != "2" || i.Metadata.ResourceVersion != "4" ||
		i.Metadata.CreateRevision != "2" {
		t.Errorf("%s", e)
	}
	w = s.watch("/v1/objects/k?watch=true&resourceVersion=1&previous=true")
	for _, want := range []string{"", "PREVIOUS k@2=1", ""} {
		e, err := w.next()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if e.Previous != nil {
			got = eventJSON{Type: "PREVIOUS", Object: e.Previous}.String()
		}
		if got != want {
			t.Errorf("%s has %q, want %q", e, got, want)
		}
	}
	// Of a compacted state only the key is left.
	compact(t, s, 4)
	s.watch("/v1/objects/k?watch=true&resourceVersion=3").want("DELETED k@4")
}

// A watch of the past says where that ends, if there is nothing in it, too.
func TestBookmarkAfterThePast(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("k", " 1\n")
	s.write("k", "2")
	w := s.watch("/v1/objects/k?watch=true&allowWatchBookmarks=true&resourceVersion=1&base64=true")
	w.want("ADDED k@2=base64 IDEK")
	w.want("MODIFIED k@3=base64 Mg==")
	w.want("BOOKMARK @3")
	s.watch("/v1/objects/k?watch=true&allowWatchBookmarks=true&resourceVersion=3").want("BOOKMARK @3")
	s.watch("/v1/objects/none?watch=true&allowWatchBookmarks=true&resourceVersion=1").want("BOOKMARK @3")
	for path, want := range map[string]string{
		"/v1/objects/k?base64=true": `"valueBase64":"Mg=="`, "/v1/objects/?base64=true": `"valueBase64":"Mg=="`,
		"/v1/objects/k?base64=true&history=true": `"valueBase64":"IDEK"`, "/v1/objects/k?base64=false": `"value":2`,
	} {
		if body := s.do("GET", path, "").body; !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestWatchRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for range 5 {
		s.write("k", "1")
	}
	compact(t, s, 5)
	for query, want := range map[string]struct {
		code   int
		reason string
	}{
		"resourceVersion=3":      {410, "Expired"},
		"continue=x":             {400, "BadRequest"},
		"sendInitialEvents=true": {400, "BadRequest"},
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=100000": {504, "Timeout"},
	} {
		for _, path := range []string{"/v1/objects/?watch=true&", "/v1/objects/k?watch=true&"} {
			s.do("GET", path+query, "").want(want.code, want.reason)
		}
	}
	s.watch("/v1/objects/?watch=true&resourceVersion=4").want("MODIFIED k@5=1", "MODIFIED k@6=1")
}

func TestWatchBookmarks(t *testing.T) {
	t.Parallel()
	s := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{ProgressInterval: 10 * time.Millisecond}, false)
	s.write("p/a", "1")
	w := s.watch("/v1/objects/p/?watch=true&allowWatchBookmarks=true&resourceVersion=1")
	w.want("ADDED p/a@2=1")
	quiet := s.watch("/v1/objects/p/?watch=true&resourceVersion=1")
	var rev int64
	for i := range 10 { // other writes raise the bookmarks, too
		rev = s.write("other", strconv.Itoa(i))
		for {
			e, err := w.next()
			if err != nil || e.Type != "BOOKMARK" {
				t.Fatalf("%s %v", e, err)
			}
			at := e.version(t)
			if at > rev {
				t.Fatalf("%s, but %d is the last revision", e, rev)
			}
			if at == rev {
				break
			}
		}
	}
	compact(t, s, rev)
	// Only the bookmark's version is recent enough to resume from.
	resumed := s.watch(fmt.Sprint("/v1/objects/p/?watch=true&resourceVersion=", rev))
	s.write("p/b", "2")
	quiet.want("ADDED p/a@2=1", "ADDED p/b@13=2")
	resumed.want("ADDED p/b@13=2")
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("k", "1")
	s.watch("/v1/objects/?watch=true&resourceVersion=9223372036854775807&timeoutSeconds=1").wantEnd()
	timed := s.watch("/v1/objects/k?watch=true&timeoutSeconds=1")
	timed.want("ADDED k@2=1")
	timed.wantEnd()
	if r := s.do("HEAD", "/v1/objects/k?watch=true", "").want(200, ""); r.body != "" {
		t.Errorf("%q", r.body)
	}
	s.do("HEAD", "/v1/objects/k?watch=true&continue=x", "").want(400, "")
	stopped := s.watch("/v1/objects/k?watch=true&timeoutSeconds=9999999999")
	stopped.want("ADDED k@2=1")
	s.api.Stop()
	stopped.wantEnd()
	s.do("GET", "/v1/objects/k?watch=true", "").want(503, "ServiceUnavailable")
	s.do("GET", "/v1/objects/k", "").want(200, "")
}

// A watch that a compaction overtakes ends with an error that says so.
func TestWatchOvertaken(t *testing.T) {
	t.Parallel()
	// A window and a queue of a few events: a client that does not read falls back to the database.
	s := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{WindowBytes: 1, WatcherBytes: 1}, false)
	value := `"` + strings.Repeat("x", 100_000) + `"`
	w := s.watch("/v1/objects/?watch=true&resourceVersion=1")
	var last int64
	for range 300 {
		last = s.write("k", value)
	}
	compact(t, s, last)
	at := int64(1)
	for {
		e, err := w.next()
		if err != nil {
			t.Fatalf("%v after %d", err, at)
		}
		if e.Type == "ERROR" {
			if e.String() != "ERROR 410 Expired" {
				t.Errorf("%s", e.Object)
			}
			break
		}
		if rev := e.version(t); rev != at+1 {
			t.Fatalf("version %d after %d", rev, at)
		}
		at++
	}
	w.wantEnd()
}

// A client that does not read is disconnected, and its memory is released.
func TestWatchOfClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			s := serveOver(t, openSQLite(t), restapi.Options{Timeout: 100 * time.Millisecond}, store.Config{}, secure)
			s.write("k", "1")
			w := s.watch("/v1/objects/?watch=true")
			w.want("ADDED k@2=1")
			value := `"` + strings.Repeat("x", 1<<20) + `"`
			for s.api.Serving() > 0 { // until the kernel's buffers are full
				s.write("k", value)
			}
			for {
				if _, err := w.lines.ReadBytes('\n'); err != nil {
					if errors.Is(err, io.EOF) {
						t.Error("it ended without an error")
					}
					return
				}
			}
		})
	}
}
