package console_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// events is a stream of events that a test reads.
type events struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Scanner
}

// event is an event of a stream.
type event struct{ name, id, data string }

// stream opens a stream of events.
func (s *served) stream(path string, headers ...string) *events {
	s.t.Helper()
	answer := s.send(http.MethodGet, path, nil, headers...)
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("%s, %s", answer.Status, kind)
	}
	return &events{s.t, answer.Body, bufio.NewScanner(answer.Body)}
}

// next returns the next event but pings, false at the end of the stream.
func (x *events) next() (e event, ok bool) {
	x.t.Helper()
	for x.in.Scan() {
		switch name, value, _ := strings.Cut(x.in.Text(), ": "); name {
		case "":
			if e.name != "ping" {
				return e, true
			}
			e = event{}
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		default:
			x.t.Fatalf("the line %q", x.in.Text())
		}
	}
	if err := x.in.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		x.t.Fatal(err)
	}
	return e, false
}

// changed is the data of a change.
type changed struct {
	Revision                           int64
	Key, Action, Kind, Object, Compare string
	Bytes                              int
}

// pastProgress returns the next event but pings and progress.
func (x *events) pastProgress() (e event, ok bool) {
	x.t.Helper()
	for e.name = "progress"; e.name == "progress"; {
		e, ok = x.next()
	}
	return e, ok
}

// change returns the next event but progress, which has to be a change.
func (x *events) change() (c changed, id string) {
	x.t.Helper()
	e, ok := x.pastProgress()
	if !ok || e.name != "change" {
		x.t.Fatalf("no change but %+v", e)
	}
	if err := json.Unmarshal([]byte(e.data), &c); err != nil {
		x.t.Fatal(err)
	}
	return c, e.id
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	before := s.put(web, configMap(3))
	s.get("/watch?prefix=/registry/").want(200, `data-events="/watch/events?prefix=%2Fregistry%2F"`,
		fmt.Sprintf(`data-after="%d"`, before), "/static/watch.js")
	x := s.stream(fmt.Sprintf("/watch/events?prefix=/registry/&after=%d", before))
	s.put("elsewhere", "x")
	updated := s.put(web, configMap(5))
	s.put("/registry/secrets/default/s", `{"apiVersion":"v1","kind":"Secret","data":{"p":"c2Vjb25k"}}`)
	if _, err := s.client.Delete(s.within(), web); err != nil {
		t.Fatal(err)
	}
	key := url.QueryEscape(web)
	got, id := x.change()
	if want := (changed{
		Revision: updated, Key: web, Action: "updated", Kind: "v1 ConfigMap", Bytes: len(configMap(5)),
		Object:  fmt.Sprintf("/object?at=%d&key=%s", updated, key),
		Compare: fmt.Sprintf("/diff?from=%d&key=%s&to=%d", updated-1, key, updated),
	}); got != want || id != fmt.Sprint(before) && id != fmt.Sprint(before+1) {
		t.Errorf("id %s, %+v, want %+v", id, got, want)
	}
	s.get(got.Object).want(200, "speed: &#34;5&#34;")
	s.get(got.Compare).want(200, "-  speed: &#34;3&#34;")
	if got, id := x.change(); got.Action != "created" || got.Kind != "v1 Secret" || got.Compare != "" ||
		id != fmt.Sprint(updated) {
		t.Errorf("id %s, %+v", id, got)
	}
	if got, _ := x.change(); got.Action != "deleted" || got.Key != web || got.Bytes != 0 || got.Compare == "" {
		t.Errorf("%+v", got)
	}
}

// A browser that loses the connection anywhere goes on without a gap: what it continues after is a revision that it has
// all of.
func TestWatchResumed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := s.put("a", "1")
	answer, err := s.client.Txn(s.within()).Then(clientv3.OpPut("b", "1"), clientv3.OpPut("c", "1")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	s.put("d", "1")
	x := s.stream(fmt.Sprintf("/watch/events?prefix=&after=%d", first-1))
	x.change()
	_, id := x.change() // b, without c
	_ = x.body.Close()
	if id != fmt.Sprint(first) {
		t.Fatalf("continues after %s, want %d", id, first)
	}
	x = s.stream("/watch/events?prefix=&after=1", "Last-Event-ID: "+id)
	for _, want := range []string{"b", "c", "d"} {
		if got, _ := x.change(); got.Key != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if _, err := s.client.Compact(s.within(), answer.Header.Revision+1); err != nil {
		t.Fatal(err)
	}
	x = s.stream("/watch/events?prefix=", "Last-Event-ID: "+id)
	if e, _ := x.next(); e.name != "failed" || !strings.Contains(e.data, "compacted") {
		t.Errorf("after a gap: %+v", e)
	}
	if e, ok := x.next(); ok {
		t.Errorf("after the failure: %+v", e)
	}
	x = s.stream("/watch/events?prefix=&after=yesterday")
	if e, _ := x.next(); e.name != "failed" {
		t.Errorf("%+v", e)
	}
}

// A stream that nobody ends does not hold up a stop, and is of no use to pages of other sites.
func TestWatchStops(t *testing.T) {
	t.Parallel()
	s := serve(t)
	revision := s.put("a", "1")
	path := fmt.Sprintf("/watch/events?prefix=&after=%d", revision)
	s.get(path, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors").want(http.StatusForbidden)
	s.page(s.send(http.MethodGet, path, strings.NewReader("a body"))).want(http.StatusBadRequest)
	x := s.stream(path)
	s.put("b", "1")
	x.change()
	closed := make(chan error)
	go func() { closed <- s.server.Close() }()
	if e, ok := x.pastProgress(); ok {
		t.Errorf("%+v", e)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
