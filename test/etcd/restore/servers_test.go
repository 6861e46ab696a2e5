package restore

import (
	"os/exec"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// target is a server under test.
type target struct {
	*launch.Server
	*clientv3.Client

	etcd bool
}

// each runs a test on a new server of each kind.
func each(t *testing.T, test func(t *testing.T, s *target)) {
	t.Helper()
	for name, start := range map[string]func(t *testing.T) *launch.Server{
		"etcd":   func(t *testing.T) *launch.Server { return servers.Etcd(t) },
		"sqlite": func(t *testing.T) *launch.Server { return launch.Start(t, launch.Config{}) },
		"postgres": func(t *testing.T) *launch.Server {
			return launch.Start(t, launch.Config{Args: []string{"--datastore", pgserver.Database(t)}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			client := connect(t, s.Endpoint())
			test(t, &target{Server: s, Client: client, etcd: name == "etcd"})
		})
	}
}

func connect(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// must returns a result, and fails the test if there is none.
func must[T any](t *testing.T) func(result T, err error) T {
	t.Helper()
	return func(result T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// put and remove return the revision of what they write.
func (s *target) put(t *testing.T, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	return must[*clientv3.PutResponse](t)(s.Put(t.Context(), key, value, opts...)).Header.Revision
}

func (s *target) remove(t *testing.T, key string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	return must[*clientv3.DeleteResponse](t)(s.Delete(t.Context(), key, opts...)).Header.Revision
}

// version is what a key is.
type version struct {
	value                     string
	created, modified, number int64
	lease                     int64
}

// state returns all keys at a revision, 0 for now, and the current revision.
func (s *target) state(t *testing.T, revision int64) (state map[string]version, now int64) {
	t.Helper()
	all := []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithRev(revision)}
	resp := must[*clientv3.GetResponse](t)(s.Get(t.Context(), "\x00", all...))
	state = map[string]version{}
	for _, kv := range resp.Kvs {
		state[string(kv.Key)] = version{string(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease}
	}
	return state, resp.Header.Revision
}

// command returns 'sqlstore restore' on a server.
func command(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"restore", "--endpoint", url}, args...)
	return exec.CommandContext(t.Context(), launch.Binary(t), args...)
}

// want runs 'sqlstore restore', whose output must contain parts.
func (s *target) want(t *testing.T, fails bool, parts []string, args ...string) {
	t.Helper()
	wantOutput(t, fails, parts, command(t, s.ClientURL(), args...))
}

func wantOutput(t *testing.T, fails bool, parts []string, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	for _, part := range parts {
		if (err != nil) != fails || !strings.Contains(string(out), part) {
			t.Fatalf("%q: %v:\n%s\nwant %q", cmd.Args[1:], err, out, part)
		}
	}
}
