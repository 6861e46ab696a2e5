package gateway

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

var pattern = regexp.MustCompile(`WithHTTPPathPattern\("([^"]+)"\)`)

// generated returns the paths of etcd's gateway, as its generated code has them.
func generated(t *testing.T) (paths []string) {
	t.Helper()
	for _, module := range []string{"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/server/v3"} {
		dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(strings.TrimSpace(string(dir)), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".pb.gw.go") {
				return err
			}
			code, err := os.ReadFile(path)
			for _, m := range pattern.FindAllStringSubmatch(string(code), -1) {
				paths = append(paths, m[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// others are the paths of etcd's handlers other than the gateway's: those of the client URLs, and those of the peer
// URLs, which it does not serve here. The answers of the first are compared in TestSameHealth and TestSameMetrics. The
// path / is left out, where etcd has nothing and sqlstore a page for people.
var others = []string{
	"/version", "/metrics", "/health", "/livez", "/livez/", "/readyz", "/readyz/", "/debug/vars", "/debug/vars/",
	"/debug/pprof", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/heap",
	"/debug/pprof/goroutine", "/debug/pprof/threadcreate", "/debug/pprof/block", "/debug/pprof/mutex",
	"/debug/pprof/allocs", "/debug/pprof/none", "/debug/requests", "/debug/events", "/debug",
	"/config/local/log", "/proxy/health", "/proxy/metrics", "/v2/keys", "/v2/members",
	"/raft", "/raft/probing", "/members", "/members/", "/members/promote/", "/members/hashkv", "/leases",
	"/leases/internal", "/downgrade/enabled",
	"/v3", "/v3/", "/v3/kv", "/v3/kv/", "/v3//kv/range", "/v3/kv/range/", "/v3/kv/../kv/range", "/v3/kv/range%20",
	"/v3alpha/kv/range", "/v3beta", "/v3beta/", "/v3beta/kv/none", "/v3beta/v3beta/kv/range", "//v3/kv/range",
}

// Every path that etcd serves is served, and no other.
func TestSamePaths(t *testing.T) {
	flags := []string{"--unsafe-no-fsync", "--enable-pprof"}
	etcd, target := servers.Etcd(t, flags...), servers.Target(t, flags...)
	paths := generated(t)
	if len(paths) < 40 {
		t.Fatalf("only the paths %q", paths)
	}
	for _, path := range paths {
		// etcd also takes the paths of its beta version. Nothing but JSON gets as far as a service.
		for _, path := range []string{path, strings.Replace(path, "/v3/", "/v3beta/", 1), path + "/none"} {
			want, got := reached(t, etcd, path), reached(t, target, path)
			if !reflect.DeepEqual(want, got) {
				t.Errorf("POST %s\netcd:   %v\ntarget: %v", path, want, got)
			}
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				if want, got := outcome(t, etcd, method, path), outcome(t, target, method, path); want != got {
					t.Errorf("%s %s: %s, want %s", method, path, got, want)
				}
			}
		}
	}
	for _, path := range others {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			want, got := outcome(t, etcd, method, path), outcome(t, target, method, path)
			if want != got {
				t.Errorf("%s %s: %s, want %s", method, path, got, want)
			}
		}
	}
}

// reached returns the answer of the service at a path to what is not JSON. A watch gives none, but to JSON.
func reached(t *testing.T, s *launch.Server, path string) any {
	t.Helper()
	if !strings.HasSuffix(path, "/watch") {
		return post(t, s.ClientURL()+path, "not JSON")
	}
	return open(t, t.Context(), s.ClientURL()+path, `{"create_request": {"key": "YQ=="}}`).read(t, 1)
}

// outcome returns the status of an answer, its content type and where it leads.
func outcome(t *testing.T, s *launch.Server, method, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.ClientURL()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirects
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := resp.Header
	return strings.Join([]string{resp.Status, h.Get("Content-Type"), h.Get("Location"), h.Get("Allow")}, " ")
}
