package clients

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// statusFlags make the status complete: Postgres has no quota by default.
var statusFlags = []string{"--unsafe-no-fsync", "--quota-backend-bytes", "1000000000"}

// Commands that print ids and sizes: in JSON, etcd's and the target's answers must have the same fields; as a table,
// the same columns. A server without peers has no URLs for them.
func TestSameShape(t *testing.T) {
	etcd, target := servers.Etcd(t, statusFlags...), servers.Target(t, statusFlags...)
	for _, args := range []string{"endpoint status", "endpoint health", "endpoint hashkv", "member list"} {
		for _, server := range []*launch.Server{etcd, target} {
			ctl(t, server.Endpoint(), "", "put", "a", "1").must(t)
		}
		run := func(server *launch.Server, format string) string {
			return ctl(t, server.Endpoint(), "", append(strings.Split(args, " "), "-w", format)...).must(t)
		}
		want, got := fields(t, run(etcd, "json")), fields(t, run(target, "json"))
		if !slices.Equal(got, want) {
			t.Errorf("%s -w json has the fields\n%q, want\n%q", args, got, want)
		}
		want, got = columns(run(etcd, "table")), columns(run(target, "table"))
		if !slices.Equal(got, want) {
			t.Errorf("%s -w table has the columns\n%q, want\n%q", args, got, want)
		}
		if simple := run(target, "simple"); strings.TrimSpace(simple) == "" {
			t.Errorf("%s prints nothing", args)
		}
	}
}

// fields lists the paths of all fields in a JSON document, sorted.
func fields(t *testing.T, document string) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	paths := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, sub := range v {
				walk(path+"."+name, sub)
			}
		case []any:
			for _, sub := range v {
				walk(path+"[]", sub)
			}
		default:
			if !strings.HasSuffix(path, ".peerURLs[]") {
				paths[path] = true
			}
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(paths))
}

// columns returns the words of a table's header.
func columns(table string) []string {
	for line := range strings.Lines(table) {
		if strings.ContainsAny(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return strings.Fields(strings.NewReplacer("|", " ", "│", " ").Replace(line))
		}
	}
	return nil
}

// A lone server can transfer its leadership only to itself.
func TestMoveLeader(t *testing.T) {
	move := func(t *testing.T, server *launch.Server) {
		id, _, _ := strings.Cut(ctl(t, server.Endpoint(), "", "member", "list").must(t), ",")
		if got := ctl(t, server.Endpoint(), "", "move-leader", id).must(t); !strings.Contains(got,
			"Leadership transferred from "+id+" to "+id) {
			t.Errorf("move-leader to itself prints %q", got)
		}
		if got := ctl(t, server.Endpoint(), "", "move-leader", "63"); got.code == 0 || !strings.Contains(got.stderr,
			"bad leader transferee") {
			t.Errorf("move-leader to an unknown member: %+v", got)
		}
	}
	t.Run("etcd", func(t *testing.T) { move(t, servers.Etcd(t, "--unsafe-no-fsync")) })
	t.Run("target", func(t *testing.T) { move(t, servers.OnlyTarget(t, "--unsafe-no-fsync")) })
}
