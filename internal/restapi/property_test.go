package restapi_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// state is what a client knows: values by key, at versions.
type state map[string]string

func (st state) apply(t testing.TB, e eventJSON) (revision int64) {
	t.Helper()
	i := e.item(t)
	revision = e.version(t)
	key, value := i.Metadata.Key, i.Metadata.ResourceVersion+"="+string(i.Value)
	before, known := st[key]
	switch e.Type {
	case "ADDED":
		if known {
			t.Fatalf("%s, but it was there: %s", e, before)
		}
		st[key] = value
	case "MODIFIED":
		if !known {
			t.Fatalf("%s, but it was not there", e)
		}
		st[key] = value
	case "DELETED":
		_, last, _ := cutVersion(before)
		if !known || last != string(i.Value) {
			t.Fatalf("%s, but it was %q", e, before)
		}
		delete(st, key)
	default:
		t.Fatalf("%s", e)
	}
	return revision
}

func cutVersion(s string) (version, value string, ok bool) {
	for i := range s {
		if s[i] == '=' {
			return s[:i], s[i+1:], true
		}
	}
	return "", s, false
}

// listed is the state of a list in chunks, and its version.
func (s *served) listed(prefix string, limit int) (state, int64) {
	s.t.Helper()
	st := state{}
	version, token := "", ""
	for {
		r := s.do("GET", fmt.Sprintf("/v1/objects/%s?limit=%d&continue=%s", prefix, limit, token), "")
		if s.tooBusy(r.code) {
			continue
		}
		l := r.want(200, "").list()
		if version == "" {
			version = l.Metadata.ResourceVersion
		}
		if l.Metadata.ResourceVersion != version {
			s.t.Fatalf("a chunk of version %s after %s", l.Metadata.ResourceVersion, version)
		}
		for _, i := range l.Items {
			if _, twice := st[i.Metadata.Key]; twice {
				s.t.Fatalf("%s twice", i.Metadata.Key)
			}
			st[i.Metadata.Key] = i.Metadata.ResourceVersion + "=" + string(i.Value)
		}
		if token = l.Metadata.Continue; token == "" {
			break
		}
	}
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return st, revision
}

// scribble makes random writes through the API until n have succeeded. replaced has the versions that any writer has
// replaced: none is replaced twice.
func (s *served) scribble(seed uint64, n int, replaced *sync.Map) {
	random := rand.New(rand.NewPCG(seed, 1))
	for done := 0; done < n; {
		key := fmt.Sprintf("p/%d/%d", random.IntN(3), random.IntN(8))
		got := s.do("GET", "/v1/objects/"+key, "")
		var r *reply
		switch {
		case s.tooBusy(got.code):
			continue
		case got.code == 404:
			r = s.do("PUT", "/v1/objects/"+key, fmt.Sprintf(`{"value":%d}`, random.IntN(1000)))
		case random.IntN(3) == 0:
			r = s.do("DELETE", "/v1/objects/"+key+"?resourceVersion="+got.item().Metadata.ResourceVersion, "")
		default:
			i := got.item()
			r = s.do("PUT", "/v1/objects/"+key, fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"value":%d}`,
				i.Metadata.ResourceVersion, random.IntN(1000)))
		}
		switch {
		case r.code == 200 || r.code == 201:
			done++
			if got.code == 404 {
				continue
			}
			version := key + "@" + got.item().Metadata.ResourceVersion
			if _, twice := replaced.LoadOrStore(version, true); twice {
				s.t.Errorf("two writes have replaced %s", version)
			}
		case r.code == 409 || r.code == 404 || s.tooBusy(r.code):
		default:
			s.t.Errorf("%d %s", r.code, r.body)
			return
		}
	}
}

// theEnd is the key that is written last. It sorts after the others: a client that has it has all.
const theEnd = "p/end"

// tooBusy reports whether to retry a request.
func (s *served) tooBusy(code int) bool { return s.busy && (code == 503 || code == 504) }

// watchAgain is watch, tried until the database is not too busy.
func (s *served) watchAgain(path string) *watched {
	s.t.Helper()
	for {
		resp := s.open("GET", path, "")
		if !s.tooBusy(resp.StatusCode) {
			return s.watches(path, resp)
		}
		_ = resp.Body.Close()
	}
}

// ended reports whether a watch has ended because the database was unavailable.
func (s *served) ended(e eventJSON) bool {
	return s.busy && e.String() == "ERROR 503 ServiceUnavailable"
}

// watcher lists and watches repeatedly until it has seen the end.
func (s *served) watcher(seed uint64) state {
	random := rand.New(rand.NewPCG(seed, 2))
	st, at := s.listed("p/", 1+random.IntN(5))
	for {
		w := s.watchAgain(fmt.Sprintf("/v1/objects/p/?watch=true&resourceVersion=%d", at))
		for range 1 + random.IntN(50) {
			if st[theEnd] != "" {
				w.close()
				return st
			}
			e, err := w.next()
			if err != nil {
				s.t.Errorf("the watch ended with %v", err)
				return st
			}
			if s.ended(e) {
				break
			}
			revision := st.apply(s.t, e)
			if revision <= at {
				s.t.Errorf("%s after %d", e, at)
			}
			at = revision
		}
		w.close()
	}
}

// streamer does the same with the state that a watch begins with. That state is the one at its bookmark.
func (s *served) streamer() state {
	for {
		st, newest, end := state{}, int64(0), int64(0)
		w := s.watchAgain("/v1/objects/p/?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" +
			"&allowWatchBookmarks=true")
		for {
			e, err := w.next()
			if err != nil {
				s.t.Errorf("the watch ended with %v", err)
				return st
			}
			if s.ended(e) {
				break
			}
			if e.Type == "BOOKMARK" {
				if end = e.version(s.t); newest > end {
					s.t.Errorf("the state at %d has version %d", end, newest)
				}
				continue
			}
			if newest = max(newest, st.apply(s.t, e)); end > 0 && e.version(s.t) <= end {
				s.t.Errorf("%s after the state at %d", e, end)
			}
			if end > 0 && st[theEnd] != "" {
				w.close()
				return st
			}
		}
		w.close()
	}
}

// history runs writers and clients that list and watch; all end with the same state. Some of the clients may use other
// replicas.
func history(t *testing.T, replicas ...*served) {
	const writers = 3
	s, writes := replicas[0], 60
	if s.busy {
		writes = 20
	}
	var writing, watching sync.WaitGroup
	var replaced sync.Map
	for i := range writers {
		writing.Go(func() { replicas[i%len(replicas)].scribble(uint64(i), writes, &replaced) })
	}
	states := make([]state, 6)
	for i := range states {
		watching.Go(func() {
			at := replicas[i%len(replicas)]
			if i%2 == 0 {
				states[i] = at.watcher(uint64(i))
			} else {
				states[i] = at.streamer()
			}
		})
	}
	writing.Wait()
	// A last write, which all of them see, wakes those that wait for an event.
	r := s.do("PUT", "/v1/objects/"+theEnd, `{"value":0}`).want(201, "").item()
	end, err := strconv.ParseInt(r.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	watching.Wait()
	want, at := s.listed("p/", 7)
	if at != end {
		t.Errorf("the list is at %d, the last write was at %d", at, end)
	}
	for i, got := range states {
		if !maps.Equal(got, want) {
			t.Errorf("client %d has %v, want %v", i, got, want)
		}
	}
}

func TestListAndWatchAreTheState(t *testing.T) {
	t.Parallel()
	history(t, serve(t, restapi.Options{}))
}
