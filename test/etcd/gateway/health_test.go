package gateway

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// Probes and scripts read these byte for byte, including headers.
func TestSameHealth(t *testing.T) {
	flags := []string{"--unsafe-no-fsync", "--cors", "*"} // etcd's default
	etcd, target := servers.Etcd(t, flags...), servers.Target(t, flags...)
	same := func(method, path string) {
		t.Helper()
		want := probe(t, etcd, method, path)
		if got := probe(t, target, method, path); got != want {
			t.Errorf("%s %s:\n%s\nwant\n%s", method, path, got, want)
		}
	}
	paths := []string{
		"/health", "/health?serializable=true", "/health?exclude=NOSPACE", "/version",
		"/livez", "/livez/serializable_read", "/livez/serializable_read?verbose", "/livez/non_learner",
		"/livez?exclude=no_such_check",
		"/readyz", "/readyz/serializable_read", "/readyz/linearizable_read?verbose", "/readyz/non_learner?verbose",
		"/readyz/data_corruption?verbose", "/readyz/no_such_check", "/no_such_path",
	}
	for _, path := range paths {
		for _, method := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodDelete, http.MethodOptions,
		} {
			same(method, path)
		}
	}
	for _, server := range []*launch.Server{etcd, target} {
		for _, kind := range []string{"NOSPACE", "CORRUPT"} {
			alarm(t, server, "ACTIVATE", kind)
		}
	}
	for _, path := range []string{
		"/health?exclude=NOSPACE", "/health?exclude=CORRUPT", "/livez",
		"/readyz/data_corruption", "/readyz?exclude=data_corruption",
	} {
		same(http.MethodGet, path)
	}
	// Under NOSPACE etcd is ready, though it refuses writes. sqlstore is ready if its Ready condition is True: if it
	// serves both reads and writes.
	for _, server := range []*launch.Server{etcd, target} {
		alarm(t, server, "DEACTIVATE", "CORRUPT")
	}
	if got := probe(t, etcd, http.MethodGet, "/readyz"); !strings.HasPrefix(got, "HTTP/1.1 200 OK\n") {
		t.Errorf("etcd's /readyz under NOSPACE: %s", got)
	}
	if got := probe(t, target, http.MethodGet, "/readyz"); !servers.TargetIsEtcd() &&
		(!strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "[-]Ready False NoSpace")) {
		t.Errorf("/readyz under NOSPACE: %s", got)
	}
	same(http.MethodGet, "/readyz?exclude=NOSPACE") // a request that excludes a check gets only etcd's checks
	alarm(t, etcd, "ACTIVATE", "CORRUPT")
	alarm(t, target, "ACTIVATE", "CORRUPT")
	// etcd's checks come in the random order of a map, and sqlstore has more of them.
	checks := func(s *launch.Server, path string) []string {
		lines := strings.Split(probe(t, s, http.MethodGet, path), "\n")
		return slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "[") })
	}
	for _, path := range []string{"/livez?verbose", "/readyz?verbose"} {
		got := checks(target, path)
		for _, check := range checks(etcd, path) {
			if strings.Contains(check, "_read") && datastore.FromEnv(t).Postgres {
				continue // a probe must not wait for a remote database: these run only under their own paths
			}
			if !slices.Contains(got, check) {
				t.Errorf("%s: %q is not among %q", path, check, got)
			}
		}
	}
}

func alarm(t *testing.T, s *launch.Server, action, kind string) {
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"action": %q, "alarm": %q}`, action, kind))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.ClientURL()+"/v3/maintenance/alarm", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s the alarm %s: %s", action, kind, resp.Status)
	}
}

var date = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// probe returns a complete answer except its date.
func probe(t *testing.T, s *launch.Server, method, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.ClientURL()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", resp.Proto, resp.Status)
	if err := resp.Header.Write(&out); err != nil {
		t.Fatal(err)
	}
	return date.ReplaceAllString(out.String(), "") + "\n" + string(body)
}
