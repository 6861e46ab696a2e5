package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// stored is what the tests of the commands that read write, in this order, from revision 2 on.
var stored = []struct{ key, value string }{
	{"/registry/pods/default/web", pod("web", "n1")},
	{"/registry/pods/default/web", pod("web", "n2")},
	{"/registry/pods/default/gone", pod("gone", "n1")},
	{"/registry/pods/default/gone", ""}, // deleted
	{"/registry/secrets/default/token", "k8s:enc:aescbc:v1:key1:\x01\xff"},
	{"compact_rev_key", "12"},
	{"bytes", "\x00\x01"},
}

func pod(name, node string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default",`+
		`"managedFields":[{"manager":"m"}]},"spec":{"nodeName":%q}}`, name, node)
}

// write writes what is stored.
func write(t *testing.T, client *clientv3.Client) {
	t.Helper()
	for _, s := range stored {
		var err error
		if s.value == "" {
			_, err = client.Delete(t.Context(), s.key)
		} else {
			_, err = client.Put(t.Context(), s.key, s.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const webAtTwo = `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
  resourceVersion: "2"
spec:
  nodeName: n1
`

// TestReaders reads a store through its server and from its database, beside the server.
func TestReaders(t *testing.T) {
	t.Parallel()
	dir, dsn := filepath.Join(t.TempDir(), "d"), pgserver.Database(t)
	for name, database := range map[string]string{"sqlite": "--data-dir=" + dir, "postgres": "--datastore=" + dsn} {
		s := launch.Start(t, launch.Config{Args: []string{database}})
		client := connect(t, s.Endpoint())
		write(t, client)
		for source, flag := range map[string]string{"server": "--endpoint=" + s.ClientURL(), "database": database} {
			t.Run(name+" "+source, func(t *testing.T) { testReader(t, flag) })
		}
		if _, err := client.Compact(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		for source, flag := range map[string]string{"server": "--endpoint=" + s.ClientURL(), "database": database} {
			t.Run(name+" "+source+" compacted", func(t *testing.T) { testCompactedReader(t, flag) })
		}
	}
}

func testReader(t *testing.T, from string) {
	const web, gone = "/registry/pods/default/web", "/registry/pods/default/gone"
	for _, c := range []struct {
		fails bool
		want  string
		args  []string
	}{
		{false, webAtTwo, []string{"get", web, "--revision=2"}},
		{false, `"nodeName": "n2"`, []string{"get", web, "-o", "json"}},
		{false, `"manager":"m"`, []string{"get", web, "-o", "raw"}},
		{false, `resourceVersion: "3"`, []string{"get", web, "--at=2100-01-01T00:00:00Z"}},
		{true, "commit time is not known", []string{"get", web, "--at=2000-01-01 00:00"}},
		{true, `"noon" is not a time`, []string{"get", web, "--at=noon"}},
		{true, "future revision; the current one is 8", []string{"get", web, "--revision=9"}},
		{true, "either --at or --revision", []string{"get", web, "--at=1s", "--revision=9"}},
		{true, "no such key: " + gone + " at revision 8", []string{"get", gone}},
		{false, "provider aescbc v1, key key1", []string{"get", "/registry/secrets/default/token"}},
		{false, "00000000  00 01", []string{"get", "bytes"}},
		{false, `"hex": "0001"`, []string{"get", "bytes", "-o", "json"}},
		{true, "give one key", []string{"get"}},
		{true, "is not yaml, json or raw", []string{"get", web, "-o", "table"}},

		{false, "/registry/       2     ", []string{"ls"}},
		{false, "/registry/pods/     1     ", []string{"ls", "/registry"}},
		{false, "/registry/pods/  2  ", []string{"ls", "/registry/", "--revision=4"}},
		{false, web + "       3         2        -  ", []string{"ls", "-r"}},
		{false, `"keys": 2`, []string{"ls", "/registry/", "--revision=4", "-o", "json"}},

		{false, "updated: spec.nodeName: n1 → n2", []string{"history", web}},
		{false, "T", []string{"history", web}},
		{false, "action: deleted", []string{"history", gone, "-o", "yaml"}},
		{false, `created: "12"`, []string{"history", "compact_rev_key"}},
		{true, "no version since revision 0", []string{"history", "none"}},

		{false, "-  nodeName: n1\n+  nodeName: n2\n", []string{"diff", web, "--from=2"}},
		{false, "4     -   " + gone + "  deleted", []string{"diff", "/", "--from=4", "--to=5"}},
		{false, "-     6   /registry/secrets/default/token  created", []string{"diff", "/", "--from=4"}},
		{false, "+# encrypted", []string{"diff", "/", "--from=4", "--full"}},
		{false, "", []string{"diff", gone, "--from=2"}},
		{false, "-     6   /registry/secrets/default/token  created", []string{"diff", "/", "--from=2000-01-01"}},
		{false, "writes since revision 1,", []string{"top", "--since=2000-01-01"}},
		{true, "--from is required", []string{"diff", web}},
		{true, "after --to", []string{"diff", web, "--from=3", "--to=2"}},

		{false, "/registry/pods/     1     ", []string{"top", "/registry", "--levels=1"}},
		{false, "v1 Pod                  1     ", []string{"top", "--by=kind"}},
		{false, `"name": "default"`, []string{"top", "--by=namespace", "-o", "json", "--sort=writes", "--limit=1"}},
		{false, "metadata.managedFields  1     34 B ", []string{"top", "--by=field"}},
		{false, "\n(not readable)  1     ", []string{"top", "--by=field", "--kind=(encrypted)"}},
		{true, "--kind needs --by field", []string{"top", "--kind=v1 Pod"}},
		{false, "/registry/pods/  1     165 B  1       0 ", []string{"top", "--until=2"}},
		{false, "/registry/pods/  +167 B  167 B  0 B      +1 ", []string{"top", "--growth", "--since=3", "--until=4"}},
		{false, "from revision 2 to 8, from ", []string{"top", "--growth", "--since=2", "--by=kind"}},
		{false, `"keysAdded": 1,`, []string{"top", "--growth", "--since=2", "--by=namespace", "-o", "json"}},
		{false, `<bdi>v1 Pod</bdi><td>1<td>`, []string{"top", "--by=kind", "-o", "html"}},
		{false, "<caption>Growth by kind", []string{"top", "--by=kind", "-o", "html", "--growth", "--since=2"}},
		{true, "--growth needs --since", []string{"top", "--growth"}},
		{false, "FIELD ", []string{"top", "--growth", "--by=field", "--since=2"}},
		{true, "--kind needs --by field", []string{"top", "--growth", "--by=kind", "--kind=v1 Pod", "--since=2"}},
		{true, "--growth has the largest growth first", []string{"top", "--growth", "--sort=keys", "--since=2"}},
		{true, "revision 3, is after what --until names, revision 2", []string{"top", "--since=3", "--until=2"}},
		{true, "revision", []string{"top", "--since=100"}},
		{true, "revision", []string{"top", "--growth", "--since=100"}},
		{false, "revision 8; writes since revision 8", []string{"top", "--since=8"}},
		{false, "from revision 8 to 8", []string{"top", "--growth", "--since=8"}},
		{true, "is not field, kind, namespace or prefix", []string{"top", "--by=size"}},

		{false, "/registry/pods/\n:6\n", []string{"__complete", "get", from, "/registry/p"}},
		{false, "bytes\ncompact_rev_key\n", []string{"__complete", "history", from, ""}},
		{true, "either --endpoint or --data-dir", []string{"ls", "--endpoint=x", "--data-dir=y"}},
	} {
		if c.args[0] != "__complete" && !strings.Contains(c.want, "--endpoint") {
			c.args = append(c.args, from)
		}
		wantOutput(t, c.fails, c.want, c.args...)
	}
	if out, err := sqlstore(t, "history", web, from); err != nil || strings.Contains(out, "not known") {
		t.Errorf("the times are not known: %q, %v", out, err)
	}
}

// Below the compacted revision nothing can be read, and a key's history begins with its version there.
func testCompactedReader(t *testing.T, from string) {
	const web = "/registry/pods/default/web"
	wantOutput(t, true, "compacted; the oldest readable one is 4", "get", web, "--revision=3", from)
	wantOutput(t, true, "compacted", "diff", web, "--from=2", from)
	wantOutput(t, true, "compacted", "top", "--since=2", from)
	wantOutput(t, true, "compacted; the oldest readable one is 4", "top", "--growth", "--since=2", from)
	for _, args := range [][]string{
		{"top", "--since=2000-01-01"}, {"diff", web, "--from=2000-01-01"}, {"watch", "--from=2000-01-01"},
	} {
		wantOutput(t, true, "it is compacted; the oldest readable revision is 4", append(args, from)...)
	}
	wantOutput(t, false, "writes since revision 4", "top", from)
	wantOutput(t, false, "oldestRevision: 4", "history", web, "-o", "yaml", from)
	wantOutput(t, false, "deleted", "history", "/registry/pods/default/gone", from)
}

// TestWatchKeys prints what is committed while it runs.
func TestWatchKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := launch.Start(t, launch.Config{DataDir: dir})
	client := connect(t, s.Endpoint())
	write(t, client)
	for i, flag := range []string{"--endpoint=" + s.ClientURL(), "--data-dir=" + dir} {
		name := []string{"server", "database"}[i]
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd := exec.CommandContext(ctx, launch.Binary(t), "watch", "/registry/pods/", "--from=2", "-o", "json",
				flag)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			next := func(action, field string) {
				t.Helper()
				var e struct {
					Action, Time string
					Fields       []struct{ Path string }
				}
				if !lines.Scan() {
					t.Fatalf("no more lines: %v", lines.Err())
				}
				if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action != action || e.Time == "" ||
					(field != "") != (len(e.Fields) == 1 && e.Fields[0].Path == field) {
					t.Fatalf("%s, %v; want %s %s", lines.Text(), err, action, field)
				}
			}
			next("updated", "spec.nodeName")
			next("created", "")
			next("deleted", "")
			for _, node := range []string{"n1", "n2"} {
				if _, err := client.Put(t.Context(), "/registry/pods/default/"+name, pod(name, node)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "database" { // the other source has written, too
				next("created", "")
				next("updated", "spec.nodeName")
			}
			next("created", "")
			next("updated", "spec.nodeName")
			cancel()
			_ = cmd.Wait()
		})
	}
}

// TestReadAsUser reads as a user who gives a password, from a file or a variable's file.
func TestReadAsUser(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	client := connect(t, s.Endpoint())
	write(t, client)
	_, add := client.UserAdd(t.Context(), "root", "secret")
	_, grant := client.UserGrantRole(t.Context(), "root", "root")
	_, enable := client.AuthEnable(t.Context())
	if add != nil || grant != nil || enable != nil {
		t.Fatal(add, grant, enable)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := "--endpoint=" + s.ClientURL()
	wantOutput(t, true, "user name is empty", "ls", from)
	wantOutput(t, true, "--user and --password-file go together", "ls", from, "--user=root")
	wantOutput(t, false, "/registry/", "ls", from, "--user=root", "--password-file="+password)
	wantOutput(t, true, "authentication failed", "ls", from, "--user=other", "--password-file="+password)
	t.Setenv("SQLSTORE_USER", "root")
	t.Setenv("SQLSTORE_PASSWORD_FILE", password)
	t.Setenv("SQLSTORE_ENDPOINT", s.ClientURL())
	wantOutput(t, false, "/registry/", "ls")
	wantOutput(t, false, "updated", "history", "/registry/pods/default/web")
}
