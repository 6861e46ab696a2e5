package restapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

// testTimeout is how long a test waits for what must happen. A passing test never waits that long.
const testTimeout = 2 * time.Minute

// served is the API over its own store.
type served struct {
	t      testing.TB
	url    string
	store  *store.Store
	api    *restapi.Server
	client *http.Client
	busy   bool // its database may be too busy to answer in time, on a busy machine
}

func openSQLite(t testing.TB) backend.Backend {
	t.Helper()
	b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func serve(t testing.TB, o restapi.Options) *served {
	t.Helper()
	return serveOver(t, openSQLite(t), o, store.Config{}, false)
}

// serveOver serves over b, with TLS and HTTP/2 if secure.
func serveOver(t testing.TB, b backend.Backend, o restapi.Options, c store.Config, secure bool) *served {
	t.Helper()
	s, err := store.Open(t.Context(), b, c)
	if err != nil {
		t.Fatal(err)
	}
	api := restapi.New(s, b, o)
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = secure
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		api.Stop()
		server.CloseClientConnections()
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &served{t: t, url: server.URL, store: s, api: api, client: server.Client()}
}

// reply is the answer to a request.
type reply struct {
	t      testing.TB
	code   int
	header http.Header
	body   string
}

// do sends a request; path is everything after the host, sent unchanged. headers are "Name: value".
func (s *served) do(method, path, body string, headers ...string) *reply {
	s.t.Helper()
	resp := s.open(method, path, body, headers...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return &reply{s.t, resp.StatusCode, resp.Header, string(text)}
}

func (s *served) open(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// want checks a reply's code and, for failures, its reason.
func (r *reply) want(code int, reason string) *reply {
	r.t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/json" {
		r.t.Errorf("Content-Type %q", got)
	}
	if r.code != code {
		r.t.Fatalf("answered %d, want %d: %.300s", r.code, code, r.body)
	}
	if reason != "" {
		st := r.status()
		if st.Kind != "Status" || st.APIVersion != "v1" || st.Status != "Failure" || st.Reason != reason ||
			st.Code != code || st.Message == "" {
			r.t.Fatalf("answered %s, want a failure for %s", r.body, reason)
		}
	}
	return r
}

// statusJSON and itemJSON are what clients see.
type statusJSON struct {
	Kind, APIVersion, Status, Message, Reason string

	Metadata struct{ ResourceVersion, Continue string }
	Details  struct {
		Name              string
		RetryAfterSeconds int
		Causes            []struct{ Reason, Message string }
	}
	Code int
}

type metaJSON struct {
	Key, KeyBase64, Namespace, Name, ResourceVersion, CreateRevision, Lease string

	Annotations map[string]string
}

type itemJSON struct {
	Metadata    metaJSON
	Value       json.RawMessage
	ValueBase64 *string
}

func (r *reply) decode(into any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.body), into); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
}

func (r *reply) status() (st statusJSON) {
	r.t.Helper()
	r.decode(&st)
	return st
}

func (r *reply) item() (i itemJSON) {
	r.t.Helper()
	r.decode(&i)
	return i
}

// stored returns the store's value of a key, nil for none.
func (s *served) stored(key string) *store.Row {
	s.t.Helper()
	res, err := s.store.Range(s.t.Context(), &store.RangeRequest{Key: []byte(key)})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(res.Rows) == 0 {
		return nil
	}
	return res.Rows[0]
}

// write puts a key as other programs do, not through the API.
func (s *served) write(key, value string) int64 {
	s.t.Helper()
	res, err := s.store.Put(s.t.Context(), &store.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Revision
}

func (s *served) remove(key string) int64 {
	s.t.Helper()
	res, err := s.store.Delete(s.t.Context(), &store.DeleteRequest{Key: []byte(key)})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Revision
}
