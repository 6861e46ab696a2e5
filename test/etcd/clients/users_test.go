package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// userCommands are commands about users and roles, with the options of etcdctl, in a sensible order.
var userCommands = []struct {
	args  string
	stdin string
}{
	{args: "user list"},
	{args: "role list"},
	{args: "auth status"},
	{args: "auth enable"},
	{args: "user add root:one"},
	{args: "user add root:one"},
	{args: "auth enable"},
	{args: "user grant-role root root"},
	{args: "user add alice --interactive=false", stdin: "two\n"},
	{args: "user add bob --new-user-password three"},
	{args: "user add node --no-password"},
	{args: "user add :empty"},
	{args: "user list"},
	{args: "user list -w json"},
	{args: "role add r"},
	{args: "role add r"},
	{args: "role add other -w fields"},
	{args: "role grant-permission r read a"},
	{args: "role grant-permission r write b c"},
	{args: "role grant-permission r readwrite --prefix p/"},
	{args: "role grant-permission r read --from-key z"},
	{args: "role grant-permission unknown read a"},
	{args: "role grant-permission r nonsense a"},
	{args: "role grant-permission r read c b"},
	{args: "role get r"},
	{args: "role get r -w json"},
	{args: "role get unknown"},
	{args: "role list"},
	{args: "user grant-role alice r"},
	{args: "user grant-role alice other"},
	{args: "user grant-role alice unknown"},
	{args: "user grant-role unknown r"},
	{args: "user get alice"},
	{args: "user get alice --detail"},
	{args: "user get unknown"},
	{args: "auth enable"},
	{args: "auth status"},
	{args: "--user root:one auth status"},
	{args: "get a"},
	{args: "--user alice:wrong get a"},
	{args: "--user unknown:x get a"},
	{args: "--user node:x get a"},
	{args: "--user root:one put a 1"},
	{args: "--user alice:two get a"},
	{args: "--user alice:two put a 2"},
	{args: "--user alice --password two put b 2"},
	{args: "--user alice:two put b 2 --prev-kv"},
	{args: "--user alice:two get --prefix p/"},
	{args: "--user alice:two get --prefix p"},
	{args: "--user alice:two get zz --from-key"},
	{args: "--user alice:two del b"},
	{args: "--user alice:two txn", stdin: "version(\"p/x\") = \"0\"\n\nput p/x 1\nget a\n\n\n"},
	{args: "--user alice:two txn", stdin: "version(\"q\") = \"0\"\n\nput p/x 1\n\n\n"},
	{args: "--user alice:two user get alice"},
	{args: "--user alice:two user get bob"},
	{args: "--user alice:two role get r"},
	{args: "--user alice:two user list"},
	{args: "--user alice:two user passwd bob --interactive=false", stdin: "x\n"},
	{args: "--user alice:two compaction 2"},
	{args: "--user alice:two defrag"},
	{args: "--user root:one user passwd alice --interactive=false", stdin: "four\n"},
	{args: "--user alice:two get a"},
	{args: "--user alice:four get a"},
	{args: "--user root:one role revoke-permission r a"},
	{args: "--user root:one role revoke-permission r a"},
	{args: "--user root:one role revoke-permission r p/ --prefix"},
	{args: "--user root:one role revoke-permission r z --from-key"},
	{args: "--user root:one role get r"},
	{args: "--user alice:four get a"},
	{args: "--user root:one user revoke-role alice other"},
	{args: "--user root:one user revoke-role alice other"},
	{args: "--user root:one user revoke-role root root"},
	{args: "--user root:one role delete root"},
	{args: "--user root:one role delete r"},
	{args: "--user root:one role delete r"},
	{args: "--user root:one user get alice"},
	{args: "--user root:one user delete root"},
	{args: "--user root:one user delete bob"},
	{args: "--user root:one user delete bob"},
	{args: "--user root:one user list"},
	{args: "--user root:one auth disable"},
	{args: "--user root:one get a"},
	{args: "get a"},
	{args: "auth disable"},
	{args: "auth status"},
}

// etcdctl auth, user and role print the same for etcd and the target.
func TestSameOutputAboutUsers(t *testing.T) {
	args := []string{"--unsafe-no-fsync", "--bcrypt-cost", "4"}
	etcd, target := servers.Etcd(t, args...), servers.Target(t, args...)
	for _, c := range userCommands {
		run := func(endpoint string) result {
			return normal(ctl(t, endpoint, c.stdin, strings.Split(c.args, " ")...), endpoint, "")
		}
		if want, got := run(etcd.Endpoint()), run(target.Endpoint()); want != got {
			t.Errorf("etcdctl %s\netcd:   %+v\ntarget: %+v", c.args, want, got)
		}
	}
}

// A snapshot contains users and roles, so that an etcd restored from it has the same.
func TestSnapshotKeepsUsers(t *testing.T) {
	target := servers.Target(t, "--unsafe-no-fsync", "--bcrypt-cost", "4")
	source := target.Endpoint()
	for _, args := range []string{
		"user add root:one", "user grant-role root root", "user add alice:two", "user add node --no-password",
		"role add r", "role add empty", "role grant-permission r readwrite --prefix p/",
		"role grant-permission r read a", "role grant-permission r write --from-key z",
		"user grant-role alice r", "user grant-role node empty", "put a 1", "auth enable",
	} {
		ctl(t, source, "", strings.Split(args, " ")...).must(t)
	}
	refused := filepath.Join(t.TempDir(), "refused.db")
	if r := ctl(t, source, "", "--user", "alice:two", "snapshot", "save", refused); r.code == 0 {
		t.Error("a user without root's role made a snapshot")
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	ctl(t, source, "", "--user", "root:one", "snapshot", "save", file).must(t)
	dir := filepath.Join(t.TempDir(), "restored")
	utl(t, "snapshot", "restore", file, "--data-dir", dir).must(t)
	restored := launch.Start(t, servers.EtcdConfig(t, dir)).Endpoint()
	for _, args := range []string{
		"--user root:one auth status", "--user root:one user list", "--user root:one role list",
		"--user root:one role get r", "--user root:one role get root", "--user root:one user get alice",
		"--user root:one user get node", "--user node:x get a", "--user alice:two get a", "--user alice:two put a 2",
		"--user alice:two put p/x 2", "--user alice:two put zz 2", "--user alice:one get a", "get a",
		"--user alice:two get --prefix p/",
	} {
		run := func(endpoint string) result {
			return normal(ctl(t, endpoint, "", strings.Split(args, " ")...), endpoint, "")
		}
		if want, got := run(source), run(restored); want != got {
			t.Errorf("etcdctl %s\ntarget:   %+v\nrestored: %+v", args, want, got)
		}
	}
}
