package telemetry_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// commit is the answer of /revision.
type commit struct {
	Revision    int64     `json:"revision"`
	CommittedAt time.Time `json:"committedAt"`
	Compacted   int64     `json:"compacted"`
}

// A revision leads to its time and back; what is not known is an error.
func TestRevision(t *testing.T) {
	m, s := newServer(t, false)
	h := m.Handler(s, "3.7.3", newAlarmed(s))
	began := time.Now().Add(-time.Minute)
	for _, value := range []string{"1", "2"} {
		if _, err := s.Put(t.Context(), &store.PutRequest{Key: []byte("k"), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(query string) (c commit) {
		t.Helper()
		code, body := request(t, h, http.MethodGet, "/revision?"+query)
		if err := json.Unmarshal([]byte(body), &c); err != nil || code != http.StatusOK {
			t.Fatalf("?%s: %d %s", query, code, body)
		}
		return c
	}
	of := ask("of=3")
	if of.Revision != 3 || of.CommittedAt.Before(began) || of.Compacted != 0 {
		t.Errorf("revision 3: %+v", of)
	}
	at := of.CommittedAt.Format(time.RFC3339Nano)
	if got := ask("at=" + url.QueryEscape(at)); got.Revision != 3 {
		t.Errorf("at %s: %+v", at, got)
	}
	for query, want := range map[string]int{
		"of=9": http.StatusGone, "at=2000-01-01T00:00:00Z": http.StatusGone, "": http.StatusBadRequest,
		"of=x": http.StatusBadRequest, "at=noon": http.StatusBadRequest, "of=2&at=noon": http.StatusBadRequest,
	} {
		code, body := request(t, h, http.MethodGet, "/revision?"+query)
		if code != want || strings.Contains(body, "{") {
			t.Errorf("?%s: %d %s, want %d", query, code, body, want)
		}
	}
}
