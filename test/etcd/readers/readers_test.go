// Package readers tests the commands that show what a store holds against a real etcd: it has no commit times, and its
// watches tell the rest.
package readers

import (
	"os/exec"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// The commands read etcd as they read sqlstore, before and after a compaction, and say that times are not known.
func TestReadEtcd(t *testing.T) {
	s := servers.Etcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, put := range [][2]string{{"/a/x", "1"}, {"/a/x", "2"}, {"/a/y", "1"}, {"/a/y", ""}, {"/b", "1"}} {
		if put[1] == "" {
			_, err = client.Delete(t.Context(), put[0])
		} else {
			_, err = client.Put(t.Context(), put[0], put[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(fails bool, part string, args ...string) {
		t.Helper()
		args = append(args, "--endpoint", s.ClientURL())
		out, err := exec.CommandContext(t.Context(), launch.Binary(t), args...).CombinedOutput()
		if (err != nil) != fails || !strings.Contains(string(out), part) {
			t.Errorf("%q: %v:\n%s\nwant %q", args, err, out, part)
		}
	}
	want(false, "/a/   1  ", "ls", "/")
	want(false, "1\n", "get", "/a/x", "--revision=2")
	want(false, `3         not known  2        1      -      updated: "1" → "2"`, "history", "/a/x")
	want(false, "the server does not tell when revisions were committed", "history", "/a/x")
	want(false, "deleted", "history", "/a/y")
	want(false, "-1\n+2\n", "diff", "/a/x", "--from=2")
	want(false, "2     3   /a/x  updated", "diff", "/", "--from=2")
	want(false, "/a/x    1     5 B    2 ", "top")
	want(true, "the server does not tell when", "get", "/a/x", "--at=1m")
	want(true, "future revision; the current one is 6", "get", "/a/x", "--revision=9")
	if _, err := client.Compact(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	want(true, "compacted; the oldest readable one is 4", "get", "/a/x", "--revision=3")
	want(false, "oldestRevision: 4", "history", "/a/x", "-o", "yaml")
	want(false, "writes since revision 4", "top")
}
