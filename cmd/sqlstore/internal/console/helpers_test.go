package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	server *sqlstore.Server
	url    string
	client *clientv3.Client
	stop   context.CancelFunc // ends the console's context, as the server does when it begins to stop
	log    *logged

	transport http.RoundTripper
	console   *console.Console
}

func serve(t *testing.T) *served { return serveWith(t, console.Options{Writes: true}) }

// serveWith is serve with other options, whose log it sets.
func serveWith(t *testing.T, o console.Options) *served {
	t.Helper()
	s := &served{t: t, log: &logged{}, transport: http.DefaultTransport}
	o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	server, err := sqlstore.Start(t.Context(), sqlstore.Config{
		ListenConsoleURLs: []string{"http://127.0.0.1:0"}, Logger: o.Logger, BcryptCost: 4,
		Console: func(ctx context.Context, local http.Handler) http.Handler {
			ctx, s.stop = context.WithCancel(ctx)
			s.console = console.New(ctx, local, o)
			return s.console
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	s.server, s.url = server, server.ConsoleEndpoints()[0]
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

// send requests a path. Headers are "Name: value"; that of Host is the request's.
func (s *served) send(method, path string, body io.Reader, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.within(), method, s.url+path, body)
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
	return answer
}

// get requests a page.
func (s *served) get(path string, headers ...string) *page {
	s.t.Helper()
	return s.page(s.send(http.MethodGet, path, nil, headers...))
}

// page reads an answer.
func (s *served) page(answer *http.Response) *page {
	s.t.Helper()
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
