package openapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

func serve(t *testing.T) (*sqlstore.Server, string, *checked) {
	t.Helper()
	s, err := sqlstore.Start(t.Context(), sqlstore.Config{
		ListenObjectsURLs: []string{"http://127.0.0.1:0"},
		MaxRequestBytes:   1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	url := s.ObjectEndpoints()[0]
	return s, url, &checked{t: t, doc: load(t, url), seen: map[string]bool{}}
}

// client returns a client of etcd's API.
func client(t *testing.T, s *sqlstore.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The answers to the tables of lists, gets and watches match the description.
func TestAnswersToTheTables(t *testing.T) {
	s, url, c := serve(t)
	etcd := client(t, s)
	var n atomic.Int64
	semantics.Run(t, semantics.Server{
		Client: &http.Client{Transport: c},
		List:   url + "/v1/objects/described/",
		Put: func(ctx context.Context, name string) error {
			_, err := etcd.Put(ctx, "described/"+name, fmt.Sprint(n.Add(1)))
			return err
		},
		Delete: func(ctx context.Context, name string) error {
			_, err := etcd.Delete(ctx, "described/"+name)
			return err
		},
		Compact: func(ctx context.Context, revision int64) error {
			_, err := etcd.Compact(ctx, revision, clientv3.WithCompactPhysical())
			return err
		},
	})
	c.want("list 200", "list 400", "list 410", "list 504", "get 200", "get 400", "get 504")
}

// An event with what it supersedes matches the description.
func TestPrevious(t *testing.T) {
	s, url, c := serve(t)
	etcd := client(t, s)
	for range 2 {
		if _, err := etcd.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		url+"/v1/objects/k?watch=true&previous=true&resourceVersion=2", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: c}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, `"previous":{`) {
		t.Errorf("%q: %v", line, err)
	}
}

// want checks that answers were seen.
func (c *checked) want(answers ...string) {
	c.t.Helper()
	for _, a := range answers {
		if !c.seen[a] {
			c.t.Errorf("no answer %q was checked against the description", a)
		}
	}
}

func (c *checked) send(method, url, body, media string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := (&http.Client{Transport: c}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// describeAll makes a lease with a key, an alarm, a user and a role, so that no list is empty.
func describeAll(t *testing.T, s *sqlstore.Server) {
	t.Helper()
	etcd := client(t, s)
	ctx := t.Context()
	lease, err := pb.NewLeaseClient(etcd.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 7, TTL: 3600})
	if err != nil {
		t.Fatal(err)
	}
	status, err := etcd.Status(ctx, s.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"a key of the lease": func() error {
			_, err := etcd.Put(ctx, "leased", "v", clientv3.WithLease(clientv3.LeaseID(lease.ID)))
			return err
		},
		"an alarm": func() error {
			_, err := pb.NewMaintenanceClient(etcd.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
				Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: 7,
			})
			return err
		},
		"a user": func() error { return addUser(ctx, etcd) },
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func addUser(ctx context.Context, etcd *clientv3.Client) error {
	if _, err := etcd.RoleAdd(ctx, "some"); err != nil {
		return err
	}
	const read = clientv3.PermissionType(clientv3.PermRead)
	if _, err := etcd.RoleGrantPermission(ctx, "some", "k", "", read); err != nil {
		return err
	}
	if _, err := etcd.UserAdd(ctx, "bob", "x"); err != nil {
		return err
	}
	_, err := etcd.UserGrantRole(ctx, "bob", "some")
	return err
}

func TestAnswersToWrites(t *testing.T) {
	s, url, c := serve(t)
	describeAll(t, s)
	const media = "application/json"
	for _, r := range []struct {
		method, path, body, media string
		code                      int
	}{
		{"PUT", "/v1/objects/a/k", `{"value":{"x":null}}`, media, 201},
		{"PUT", "/v1/objects/a/null", `{"value":null}`, media, 201},
		{"PUT", "/v1/objects/a/%00%ff", "\x00", "application/octet-stream", 201},
		{"PUT", "/v1/objects/a/k", `{"value":2}`, media, 409},
		{"PUT", "/v1/objects/a/k?resourceVersion=3", `{"value":[2]}`, media, 200},
		{"PUT", "/v1/objects/a/k?resourceVersion=3", `{"value":2}`, media, 409},
		{"PUT", "/v1/objects/a/none?resourceVersion=3", `{"value":2}`, media, 404},
		{"PUT", "/v1/objects/a/k", `{`, media, 400},
		{"PUT", "/v1/objects/a/k", strings.Repeat("x", 1000), "application/octet-stream", 413},
		{"PUT", "/v1/objects/a/k", "x", "text/plain", 415},
		{"GET", "/v1/objects/a/k", "", "", 200},
		{"GET", "/v1/objects/a/null", "", "", 200},
		{"HEAD", "/v1/objects/a/k", "", "", 200},
		{"GET", "/v1/objects/a/none", "", "", 404},
		{"GET", "/v1/objects/?limit=1", "", "", 200},
		{"GET", "/v1/objects/", "", "", 200},
		{"GET", "/v1/objects/a/", "", "", 200},
		{"GET", "/v1/objects/a/?history=true", "", "", 400},
		{"GET", "/v1/tree/", "", "", 200},
		{"GET", "/v1/tree/a/?limit=1", "", "", 200},
		{"GET", "/v1/leases", "", "", 200},
		{"GET", "/v1/leases/7", "", "", 200},
		{"GET", "/v1/leases/8", "", "", 404},
		{"GET", "/v1/leases/x", "", "", 400},
		{"GET", "/v1/alarms", "", "", 200},
		{"GET", "/v1/users?limit=1", "", "", 200},
		{"GET", "/v1/users/bob", "", "", 200},
		{"GET", "/v1/users/x", "", "", 404},
		{"GET", "/v1/roles", "", "", 200},
		{"GET", "/v1/roles/some", "", "", 200},
		{"GET", "/v1/roles/x", "", "", 404},
		{"GET", "/v1/auth", "", "", 200},
		{"GET", "/openapi.json", "", "", 200},
		{"GET", "/elsewhere", "", "", 404},
		{"POST", "/v1/objects/a/k", "", "", 405},
		{"DELETE", "/v1/objects/a/k?resourceVersion=3", "", "", 409},
		{"DELETE", "/v1/objects/a/k", `{"preconditions":{"resourceVersion":"x"}}`, media, 400},
		{"DELETE", "/v1/objects/a/k", `{}`, "text/plain", 415},
		{"DELETE", "/v1/objects/a/k", strings.Repeat(" ", 1<<17), media, 413},
		{"DELETE", "/v1/objects/a/k", `{"preconditions":{"resourceVersion":"6"}}`, media, 200},
		{"DELETE", "/v1/objects/a/k", "", "", 404},
	} {
		if resp := c.send(r.method, url+r.path, r.body, r.media); resp.StatusCode != r.code {
			t.Errorf("%s %s: %s, want %d", r.method, r.path, resp.Status, r.code)
		}
	}
}

// The description matches the server: each method, and each parameter, which refuses invalid values. The server serves
// nothing else.
func TestDescriptionIsInStep(t *testing.T) {
	_, url, c := serve(t)
	for path, item := range c.doc.Paths.Map() {
		at := url + strings.NewReplacer("{key}", "a/k", "{prefix}", "a", "{id}", "7", "{name}", "x").Replace(path)
		allow := []string{}
		for method := range item.Operations() {
			allow = append(allow, method)
		}
		if item.Get != nil {
			allow = append(allow, http.MethodHead)
		}
		slices.Sort(allow)
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "POST", "PATCH", "TRACE"} {
			resp := c.send(method, at, "{}", "")
			if refused := resp.StatusCode == http.StatusMethodNotAllowed; refused == slices.Contains(allow, method) {
				t.Errorf("%s %s: %s, but described are %v", method, path, resp.Status, allow)
			} else if got := resp.Header.Get("Allow"); refused && got != strings.Join(allow, ", ") {
				t.Errorf("%s %s: Allow %q, but described are %v", method, path, got, allow)
			}
		}
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if s := p.Value.Schema.Value; s.Type.Is("string") && s.Pattern == "" {
					continue // any text may be valid
				}
				// A parameter that only watches have is checked only there.
				for _, watch := range []string{"", "watch=true&"} {
					if watch != "" && method != http.MethodGet {
						continue
					}
					resp := c.send(method, at+"?"+watch+p.Value.Name+"=nonsense", `{"value":1}`, "")
					if ofWatch := strings.HasPrefix(p.Value.Description,
						"With watch=true:"); resp.StatusCode != http.StatusBadRequest && (watch != "" || !ofWatch) {
						t.Errorf("%s %s?%s%s=nonsense: %s", method, path, watch, p.Value.Name, resp.Status)
					}
				}
			}
		}
		if resp := c.send(http.MethodGet, at+"?nothing=nonsense", "", ""); resp.StatusCode == http.StatusBadRequest {
			t.Errorf("GET %s?nothing=nonsense: %s", path, resp.Status)
		}
	}
}
