package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/store"
)

// documentedBackup is the command of docs/damage.md for other paths.
func documentedBackup(t *testing.T, database, backup string) string {
	t.Helper()
	doc, err := os.ReadFile("docs/damage.md")
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "/var/lib/sqlstore/sqlstore.db", "/backup/sqlstore.db"
	_, after, ok := strings.Cut(string(doc), "\nsqlite3 "+from)
	command, _, _ := strings.Cut(after, "\n")
	if !ok || !strings.Contains(command, to) {
		t.Fatalf("docs/damage.md has no command that backs %s up to %s: %q", from, to, command)
	}
	return "sqlite3 " + database + strings.ReplaceAll(command, to, backup)
}

// The documented backup finishes beside steady writes, and holds the database at one revision.
func TestDocumentedBackupBesideWrites(t *testing.T) {
	dir := t.TempDir()
	s, _ := start(t, sqlstore.Config{DataDir: filepath.Join(dir, "data"), UnsafeNoFsync: true})
	const pairs = 300
	value := make([]byte, 20_000)
	write := func(ctx context.Context, round int) error {
		// One transaction writes both keys of a pair, and each round follows the one before.
		for i := range pairs {
			txn := &store.Txn{}
			for _, side := range []string{"a", "b"} {
				txn.Success = append(txn.Success, store.Op{Put: &store.PutRequest{
					Key:   fmt.Append(nil, side, i),
					Value: append(fmt.Append(nil, round, " "), value...),
				}})
			}
			if _, err := s.Store().Txn(ctx, txn); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	rounds, failed := 1, error(nil)
	first := make(chan struct{})
	writers.Go(func() {
		for ; failed == nil; rounds++ {
			failed = write(ctx, rounds)
			if rounds == 1 {
				close(first)
			}
		}
	})
	<-first
	backup := filepath.Join(dir, "backup", "sqlstore.db")
	if err := os.Mkdir(filepath.Dir(backup), 0o700); err != nil {
		t.Fatal(err)
	}
	limited, done := context.WithTimeout(t.Context(), 2*time.Minute)
	defer done()
	out, err := exec.CommandContext(limited, "sh", "-c", documentedBackup(t, filepath.Join(dir, "data", "sqlstore.db"),
		backup)).CombinedOutput()
	cancel()
	writers.Wait()
	if err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	if !errors.Is(failed, context.Canceled) {
		t.Fatalf("the writes ended before the backup did: %v", failed)
	}
	restored, c := start(t, sqlstore.Config{DataDir: filepath.Dir(backup)})
	if at, now := restored.Store().Revision(), s.Store().Revision(); at <= pairs || at > now {
		t.Errorf("the backup is of revision %d, the store at %d", at, now)
	}
	for _, side := range []string{"a", "b"} {
		got, err := c.Get(t.Context(), side, clientv3.WithPrefix())
		if err != nil || got.Count != pairs {
			t.Fatalf("%d keys of %d, %v", got.Count, pairs, err)
		}
		for _, kv := range got.Kvs {
			other, err := c.Get(t.Context(), map[string]string{"a": "b", "b": "a"}[side]+string(kv.Key[1:]))
			if err != nil || len(other.Kvs) != 1 || other.Kvs[0].ModRevision != kv.ModRevision ||
				string(other.Kvs[0].Value) != string(kv.Value) {
				t.Errorf("%s is of revision %d, its pair is not: %v", kv.Key, kv.ModRevision, err)
			}
		}
	}
	if _, err := c.Put(t.Context(), "behind", "the backup"); err != nil {
		t.Error(err)
	}
}
