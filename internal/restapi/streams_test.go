package restapi_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// Many watches of one client over HTTP/2, some of which it does not read, do not hold up each other, nor anything else.
func TestManyWatchesOfOneClient(t *testing.T) {
	t.Parallel()
	s := serveOver(t, openSQLite(t), restapi.Options{}, store.Config{}, true)
	const many = 300 // more than the streams of a connection
	watches := make([]*watched, many)
	for i := range watches {
		watches[i] = s.watch("/v1/objects/p/?watch=true&resourceVersion=1")
		if resp := watches[i].resp; resp.ProtoMajor != 2 {
			t.Fatalf("%s is spoken", resp.Proto)
		}
	}
	large := `"` + strings.Repeat("x", 20_000) + `"`
	const writes = 10
	for i := range writes {
		s.do("PUT", "/v1/objects/p/"+string(rune('a'+i)), `{"value":`+large+`}`).want(201, "")
	}
	if n := s.api.Serving(); n != many {
		t.Errorf("%d requests are being served, want the watches", n)
	}
	var reading sync.WaitGroup
	for i, w := range watches {
		if i%3 == 0 {
			continue // nobody reads it
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
	for s.api.Serving() > 0 { // the server hears of each in a moment
		s.do("GET", "/v1/objects/none", "")
	}
}

// A watch over HTTP/2 to which nothing happens lasts for as long as it was asked for, though no answer may take so long
// to be taken.
func TestQuietWatch(t *testing.T) {
	t.Parallel()
	s := serveOver(t, openSQLite(t), restapi.Options{Timeout: 50 * time.Millisecond}, store.Config{}, true)
	w := s.watch("/v1/objects/p/?watch=true&resourceVersion=1&timeoutSeconds=1")
	if w.resp.ProtoMajor != 2 {
		t.Fatalf("%s is spoken", w.resp.Proto)
	}
	w.wantEnd()
}
