package restapi_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// Many watches of one client over HTTP/2, some of them unread, block neither each other nor anything else.
func TestManyWatchesOfOneClient(t *testing.T) {
	t.Parallel()
	s := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{}, true)
	const many = 300 // more than the streams of a connection
	watches := make([]*watched, many)
	for i := range watches {
		watches[i] = s.watch("/v1/objects/p/?watch=true&resourceVersion=1")
		if resp := watches[i].resp; resp.ProtoMajor != 2 {
			t.Fatalf("the protocol is %s", resp.Proto)
		}
	}
	large := `"` + strings.Repeat("x", 20_000) + `"`
	const writes = 4
	for i := range writes {
		s.do("PUT", "/v1/objects/p/"+string(rune('a'+i)), `{"value":`+large+`}`).want(201, "")
	}
	if n := s.api.Serving(); n != many {
		t.Errorf("%d requests are being served, want the watches", n)
	}
	var reading sync.WaitGroup
	for i, w := range watches {
		if i%3 == 0 {
			continue // stays unread
		}
		reading.Go(func() {
			for range writes {
				if e, err := w.next(); err != nil || e.Type != "ADDED" {
					t.Errorf("watch %d: %s %v", i, e.Type, err)
					return
				}
			}
		})
	}
	reading.Wait()
	s.do("GET", "/v1/objects/p/", "").want(200, "")
	for _, w := range watches {
		w.close()
	}
	for s.api.Serving() > 0 { // the server notices each with a delay
		s.do("GET", "/v1/objects/none", "")
	}
}

// An idle watch over HTTP/2 lasts as long as requested, although no client may take that long to read an answer.
func TestQuietWatch(t *testing.T) {
	t.Parallel()
	s := serveOver(t, openSQLite(t), restapi.Options{Timeout: 50 * time.Millisecond}, store.Config{}, true)
	w := s.watch("/v1/objects/p/?watch=true&resourceVersion=1&timeoutSeconds=1")
	if w.resp.ProtoMajor != 2 {
		t.Fatalf("the protocol is %s", w.resp.Proto)
	}
	w.wantEnd()
}
