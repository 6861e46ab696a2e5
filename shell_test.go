package sqlstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/store"
)

// A shell with an open transaction lets the WAL grow. The server reports it, and counts it against the quota, until the
// transaction ends.
func TestShellThatHoldsATransactionOpen(t *testing.T) {
	t.Parallel()
	const small = 200
	dir := t.TempDir()
	s, c := start(t, sqlstore.Config{DataDir: dir, UnsafeNoFsync: true, QuotaBytes: 64 << 20})
	ctx := t.Context()
	for i := range small {
		if _, err := c.Put(ctx, fmt.Sprint("small", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	shell := exec.Command("sqlite3", filepath.Join(dir, "sqlstore.db"))
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = shell.Wait()
	})
	if _, err := io.WriteString(in, "BEGIN; SELECT revision FROM clock;\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil ||
		strings.TrimSpace(line) != fmt.Sprint(1+small) {
		t.Fatalf("the shell reads %q, %v", line, err)
	}
	value := strings.Repeat("v", 1<<20)
	for puts := 0; ; puts++ {
		p, err := c.Put(ctx, "k", value)
		if errors.Is(err, rpctypes.ErrNoSpace) && puts > 10 {
			break
		}
		if err == nil { // the rows alone stay far below the quota
			_, err = c.Compact(ctx, p.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if alarms, err := c.AlarmList(ctx); err != nil || len(alarms.Alarms) != 0 {
		t.Errorf("alarms %v, %v", alarms, err)
	}
	deleted := 0
	eventually(t, "the open transaction is reported", func() error {
		if deleted < small {
			if _, err := c.Delete(ctx, fmt.Sprint("small", deleted)); err != nil {
				t.Fatal(err)
			}
			deleted++
		}
		return holds(s.Status(t.Context()), "CheckpointStalled True LongTransaction", "NoSpace True LogExceedsQuota",
			"Ready False NoSpace")
	})
	if _, err := io.WriteString(in, "COMMIT;\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end lets writes be taken", func() error {
		if _, err := s.Store().Put(ctx, &store.PutRequest{Key: []byte("k"), Value: []byte(value)}); err != nil {
			return err
		}
		return holds(s.Status(t.Context()), "no CheckpointStalled", "no NoSpace", "Ready True Ready")
	})
	if info, err := os.Stat(filepath.Join(dir, "sqlstore.db-wal")); err != nil || info.Size() > 128<<20 {
		t.Errorf("the WAL keeps %d bytes, %v", info.Size(), err)
	}
}
