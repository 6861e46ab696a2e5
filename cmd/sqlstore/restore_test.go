package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// What 'sqlstore restore' prints and refuses; package test/etcd/restore tests what it writes.
func TestRestoreKeys(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	client := connect(t, s.Endpoint())
	write(t, client)
	if _, err := client.Put(t.Context(), "/registry/pods/default/web-2", pod("web-2", "n1")); err != nil {
		t.Fatal(err)
	}
	const pods, web = "--keys=/registry/pods/", "--keys=/registry/pods/default/web"
	for _, c := range []struct {
		fails bool
		want  string
		args  []string
	}{
		{true, "--data-dir is for a whole store", []string{pods, "--to-revision=2", "--data-dir=/none"}},
		{true, "--chain is for backups: give --from", []string{pods, "--to-revision=2", "--chain=a"}},
		{true, "--keys is empty", []string{"--keys=", "--to-revision=2"}},
		{true, "either --to-revision or --to-time", []string{pods}},
		{true, "either --to-revision or --to-time", []string{pods, "--to-revision=2", "--to-time=1m"}},
		{true, "revisions begin at 1", []string{pods, "--to-revision=-1"}},
		{true, `"noon" is not a time`, []string{pods, "--to-time=noon"}},
		{true, "commit time is not known", []string{pods, "--to-time=2000-01-01"}},
		{true, "is not table, json or yaml", []string{pods, "--to-revision=2", "-o", "raw"}},
		{true, "no such key: none begins with /none", []string{"--keys=/none", "--to-revision=2"}},
		{true, "none is /registry", []string{"--keys=/registry", "--exact", "--to-revision=2"}},
		{false, "nothing to write", []string{"--keys=/none", "--to-revision=2", "--delete-new", "--yes"}},
		{true, "standard input is no terminal", []string{pods, "--to-revision=4"}},

		{false, "3    2     /registry/pods/default/web    updated: spec.nodeName: n2 → n1\n", []string{
			pods, "--to-revision=2", "--dry-run",
		}},
		{false, "9    -     /registry/pods/default/web-2  kept: did not exist then\n\n1 updated, 1 kept", []string{
			web, "--to-revision=2", "--dry-run",
		}},
		{false, "web  updated: spec.nodeName: n2 → n1\n\n1 updated\n", []string{
			web, "--exact", "--to-revision=2", "--dry-run",
		}},
		{false, "\n\n1 created again, 1 deleted, 1 equal\n", []string{
			web, pods, web, "--to-revision=4", "--delete-new", "--dry-run",
		}},
		{false, "-  nodeName: n2\n+  nodeName: n1\n", []string{pods, "--to-revision=2", "--full", "--dry-run"}},
		{false, "web-2: kept: did not exist then\n", []string{pods, "--to-revision=2", "--full", "--dry-run"}},
		{false, "provider aescbc", []string{
			"--keys=/registry/secrets/", "--to-revision=5", "--delete-new", "--full", "--dry-run",
		}},
		{false, `"thenRevision": 2`, []string{pods, "--to-revision=2", "--dry-run", "-o", "json"}},
		{false, "- action: kept\n", []string{pods, "--to-revision=2", "--dry-run", "-o", "yaml"}},
		{false, "nothing to write", []string{pods, "--to-time=2100-01-01", "--yes"}},
	} {
		wantOutput(t, c.fails, c.want, append([]string{"restore", "--endpoint", s.ClientURL()}, c.args...)...)
	}
	wantOutput(t, false, "/registry/pods/\n:6\n", "__complete", "restore", "--endpoint", s.ClientURL(), "--keys",
		"/registry/p")
	if resp, err := client.Get(t.Context(), "bytes"); err != nil || resp.Header.Revision != 9 {
		t.Errorf("something was written: %v, %v", resp, err)
	}
}

// A value that the server does not accept any more is reported, and the others are written.
func TestRestoreTooLarge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := launch.Start(t, launch.Config{DataDir: dir})
	client := connect(t, s.Endpoint())
	sizes := map[string]int{"/a/larger": 1_500_000, "/a/large": 1 << 20, "/a/small": 1}
	for key, size := range sizes {
		value := strings.Repeat("v", size)
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(t.Context(), "/a/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = launch.Start(t, launch.Config{DataDir: dir, Args: []string{"--max-request-bytes=600000"}})
	t.Setenv("TMPDIR", t.TempDir())
	restore := func(fails bool, want string) {
		t.Helper()
		wantOutput(t, fails, want, "restore", "--endpoint", s.ClientURL(), "--keys=/a/", "--to-revision=4", "--yes")
	}
	restore(true, "1 key written, 0 deleted; the store is at revision 6")
	restore(true, "/a/large is larger than the server's --max-request-bytes")
	restore(true, "/a/larger is larger than the server's --max-request-bytes")
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", "/nowhere")
	restore(true, "TMPDIR names another directory")
	wantOutput(t, true, "does not answer", "restore", "--keys=/a/", "--to-revision=4",
		fmt.Sprintf("--endpoint=unix://%s/none", dir))
}

// What 'sqlstore restore' of a whole store refuses; package test/backups tests what it restores.
func TestRestoreStore(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	wantOutput(t, false, "up to revision 1", "backup", "--from", s.ClientURL(), "--to", dir)
	restore := func(fails bool, want string, args ...string) {
		t.Helper()
		wantOutput(t, fails, want, append([]string{"restore", "--data-dir", target}, args...)...)
	}
	restore(true, "give --from")
	restore(true, "--dry-run is for keys of a running store: give --keys", "--from", dir, "--dry-run")
	restore(true, "--endpoint is for keys", "--from", dir, "--endpoint", s.ClientURL())

	cfg := sqlite.Config{Path: filepath.Join(target, "sqlstore.db")}
	b, err := sqlite.Open(t.Context(), cfg)
	if err == nil { // as a restore of another point that was killed has left it
		err = errors.Join(b.SetImport(t.Context(), backend.Import{}, backend.Import{Source: 4711}, 0), b.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantOutput(t, true, "nothing was changed: an import into the database is not finished", "repair", "--data-dir",
		target, "--bump-by=1000", "--yes")
	restore(true, "give the point and --chain that the unfinished restore has printed", "--from", dir)
	restore(true, "with --to-revision 1 --chain ", "--from", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*-full-*Z.zst"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	_, at, _ := strings.Cut(filepath.Base(files[0]), "-full-")
	saved, err := time.Parse("20060102T150405.000Z.zst", at)
	if err != nil {
		t.Fatal(err)
	}
	when := saved.Format(time.RFC3339Nano)
	restore(true, "with --to-time "+when+" --chain ", "--from", dir, "--to-time", when)
	restore(true, "or drop the database", "--from", dir)
}
