package sqlstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore"
)

// origin is that of the page which sends the requests of fetch.
const origin = "https://somewhere.example"

// fetch sends a request to the list/watch API.
func fetch(t *testing.T, client *http.Client, method, url, body string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", origin)
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func wantCode(t *testing.T, client *http.Client, method, url, body string, code int) *http.Response {
	t.Helper()
	resp, err := fetch(t, client, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %s, want %d: %s", method, url, resp.Status, code, text)
	}
	return resp
}

// The list/watch API is off by default and has its own listeners. A stop ends its watches at once.
func TestObjectsListener(t *testing.T) {
	off, _ := start(t, sqlstore.Config{})
	if urls := off.ObjectEndpoints(); len(urls) != 0 {
		t.Errorf("served on %v without being asked", urls)
	}
	wantCode(t, http.DefaultClient, "GET", off.Endpoints()[0]+"/v1/objects/", "", http.StatusNotFound)
	// All web pages may be allowed to use the gateway, as in etcd, but not this API.
	for allowed, cors := range map[string][]string{"": nil, "*": {"*"}} {
		open, _ := start(t, sqlstore.Config{ListenObjectsURLs: []string{"http://127.0.0.1:0"}, CORS: cors})
		for path, want := range map[string]string{
			open.ObjectEndpoints()[0] + "/v1/objects/": "",
			open.Endpoints()[0] + "/version":           allowed,
		} {
			if told := wantCode(t, http.DefaultClient, "GET", path, "",
				http.StatusOK).Header.Get("Access-Control-Allow-Origin"); told != want {
				t.Errorf("%s with --cors %v: the origin %q is allowed, want %q", path, cors, told, want)
			}
		}
	}

	var log logged
	s, c := start(t, sqlstore.Config{
		ListenObjectsURLs: []string{"http://127.0.0.1:0"}, CORS: []string{origin},
		HostWhitelist: []string{"127.0.0.1"},
		Logger:        slog.New(slog.NewTextHandler(&log, nil)),
	})
	url := s.ObjectEndpoints()[0]
	created := wantCode(t, http.DefaultClient, "PUT", url+"/v1/objects/k", `{"value":1}`, http.StatusCreated)
	if told := created.Header.Get("Access-Control-Allow-Origin"); told != origin {
		t.Errorf("the origin %q is allowed", told)
	}
	if got, err := c.Get(t.Context(), "k"); err != nil || string(got.Kvs[0].Value) != "1" {
		t.Errorf("etcd's API has %v, %v", got, err)
	}
	wantCode(t, http.DefaultClient, "GET", strings.Replace(url, "127.0.0.1", "localhost", 1)+"/v1/objects/k", "",
		http.StatusMisdirectedRequest)
	wantCode(t, http.DefaultClient, "GET", url+"/metrics", "", http.StatusNotFound)
	metrics := wantCode(t, http.DefaultClient, "GET", s.Endpoints()[0]+"/metrics", "", http.StatusOK)
	text, err := io.ReadAll(metrics.Body)
	for _, line := range []string{
		`sqlstore_objects_requests_total{code="201",verb="put"} 1`,
		`sqlstore_objects_requests_total{code="404",verb="none"} 1`, "sqlstore_objects_watches 0",
		`sqlstore_objects_request_duration_seconds_count{verb="put"} 1`,
	} {
		if err != nil || !strings.Contains(string(text), line+"\n") {
			t.Errorf("%v, no %s among the metrics", err, line)
		}
	}

	watch := wantCode(t, http.DefaultClient, "GET", url+"/v1/objects/?watch=true&resourceVersion=1", "", http.StatusOK)
	events := bufio.NewReader(watch.Body)
	if line, err := events.ReadString('\n'); err != nil || !strings.Contains(line, `"ADDED"`) {
		t.Fatalf("%s, %v", line, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
		t.Errorf("the watch ended with %q, %v", rest, err)
	}
	if text := log.String(); strings.Contains(text, "cut off") || strings.Contains(text, "idle connections") {
		t.Errorf("the stop was not a clean one:\n%s", text)
	}
}

// Without TLS, too, a client may speak HTTP/2 from its first byte.
func TestObjectsPlainHTTP2(t *testing.T) {
	s, _ := start(t, sqlstore.Config{ListenObjectsURLs: []string{"http://127.0.0.1:0"}, CORS: []string{origin}})
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: p}}
	defer client.CloseIdleConnections()
	if resp := wantCode(t, client, "PUT", s.ObjectEndpoints()[0]+"/v1/objects/k", `{"value":1}`,
		http.StatusCreated); resp.ProtoMajor != 2 {
		t.Errorf("%s was spoken", resp.Proto)
	}
}

func TestObjectsListenerRefused(t *testing.T) {
	for url, want := range map[string]error{
		"http://0.0.0.0:0":    sqlstore.ErrPlaintext,
		"https://127.0.0.1:0": sqlstore.ErrConfig, "ftp://127.0.0.1:0": sqlstore.ErrConfig,
	} {
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{ListenObjectsURLs: []string{url}})
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
}

// With TLS, clients speak HTTP/1.1 or HTTP/2, even if they offer only one, and need a certificate where the server
// requires one.
func TestObjectsTLS(t *testing.T) {
	files := certificates(t)
	pem, err := os.ReadFile(files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s.sock")
	s, _ := start(t, sqlstore.Config{
		ListenObjectsURLs: []string{"https://127.0.0.1:0", "unix://" + socket},
		TLS:               files,
		CORS:              []string{origin},
	})
	url := s.ObjectEndpoints()[0]
	for major, protocols := range map[int]string{1: "http/1.1", 2: "h2"} {
		p := new(http.Protocols)
		p.SetHTTP1(major == 1)
		p.SetHTTP2(major == 2)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:    roots,
			ServerName: "example.com", Certificates: []tls.Certificate{pair},
		}, Protocols: p}}
		resp := wantCode(t, client, "PUT", url+"/v1/objects/"+protocols, `{"value":1}`, http.StatusCreated)
		if resp.ProtoMajor != major {
			t.Errorf("%s was spoken, want %s", resp.Proto, protocols)
		}
		client.CloseIdleConnections()
	}
	if _, err := fetch(t, http.DefaultClient, "GET", url+"/v1/objects/", ""); err == nil {
		t.Error("a client that trusts somebody else was served")
	}

	files.TrustedCA, files.RequireClientCert = files.Cert, true
	strict, _ := start(t, sqlstore.Config{ListenObjectsURLs: []string{"https://127.0.0.1:0"}, TLS: files})
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:    roots,
		ServerName: "example.com",
	}}}
	if resp, err := fetch(t, stranger, "GET", strict.ObjectEndpoints()[0]+"/v1/objects/", ""); err == nil {
		t.Errorf("a client without a certificate was answered %s", resp.Status)
	}
}
