package backups

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// bucket is where backups go, and the environment that its access needs.
type bucket struct {
	url string
	env []string
}

// run runs sqlstore and returns what it prints.
func (b *bucket) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), b.env...)
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("sqlstore %q: %w: %s", args, err, &stderr)
	}
	return string(out), err
}

func (b *bucket) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := b.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// chains returns the first and the last revision of each chain.
func (b *bucket) chains(t *testing.T) (all [][2]int64) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(b.must(t, "backup", "list", "--from", b.url)), "\n") {
		if i == 0 {
			continue // the headings
		}
		var c [2]int64
		if _, err := fmt.Sscanf(strings.Fields(line)[3], "%d-%d", &c[0], &c[1]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, c)
	}
	return all
}

// checkRestored restores a revision and compares the keys with what the load knows.
func (b *bucket) checkRestored(t *testing.T, l *load, revision int64) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	b.must(t, "restore", "--from", b.url, "--data-dir", dir, "--to-revision", fmt.Sprint(revision), "--keep-revisions")
	server := launch.Start(t, launch.Config{DataDir: dir})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err := errors.Join(err, client.Close(), server.Stop()); err != nil {
		t.Fatal(err)
	}
	if res.Header.Revision != revision {
		t.Errorf("restored revision %d, want %d", res.Header.Revision, revision)
	}
	keys := map[string]string{}
	for _, kv := range res.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	want, ok := l.at(revision)
	if !ok {
		t.Fatalf("revision %d is not known", revision)
	}
	if !maps.Equal(keys, want) {
		t.Errorf("revision %d: %d keys restored, want %d: %v, want %v", revision, len(keys), len(want), keys, want)
	}
}

// checkSome restores random revisions of the newest chain, and its ends.
func (b *bucket) checkSome(t *testing.T, l *load, n int) {
	t.Helper()
	all := b.chains(t)
	c := all[len(all)-1]
	revisions := []int64{max(c[0], 2), c[1]}
	for range n {
		revisions = append(revisions, max(c[0], 2)+l.rnd.Int64N(c[1]-max(c[0], 2)+1))
	}
	for _, r := range revisions {
		if _, ok := l.at(r); ok {
			b.checkRestored(t, l, r)
		}
	}
	if out := b.must(t, "backup", "verify", "--from", b.url); !strings.Contains(out, " 0 problems") {
		t.Errorf("verify: %s", out)
	}
}
