package sqlstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
)

// etcd's procedure for a full database: compact, defragment and disarm, one right after the other.
func TestFullDatabaseIsWritableAgain(t *testing.T) {
	_, c := start(t, sqlstore.Config{QuotaBytes: 8_000_000})
	ctx := t.Context()
	value := strings.Repeat("v", 100_000)
	for range 2 {
		for err := error(nil); !errors.Is(err, rpctypes.ErrNoSpace); {
			if _, err = c.Put(ctx, "k", value); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
		}
		freeSpace(t, c)
		if _, err := c.Put(ctx, "k", value); err != nil {
			t.Fatalf("after making room: %v", err)
		}
		status, err := c.Status(ctx, c.Endpoints()[0])
		if err != nil || status.DbSize > 1_000_000 || len(status.Errors) != 0 {
			t.Errorf("status %v, %v", status, err)
		}
	}
}

// While the disk reserve is released, the server accepts only deletes and compactions, and reports it.
func TestReleasedReserve(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sqlstore.db.reserve"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, c := start(t, sqlstore.Config{DataDir: dir, DiskReserveBytes: 1 << 55}) // larger than any disk
	ctx := t.Context()
	if _, err := c.Put(ctx, "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("put: %v", err)
	}
	if _, err := c.Delete(ctx, "k"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.Compact(ctx, 1); err != nil {
		t.Errorf("compact: %v", err)
	}
	wantConditions(t, s, "Ready False NoSpace", "NoSpace True ReserveReleased", "no DatabaseUnavailable")
	metrics := body(t, s.Endpoints()[0]+"/metrics")
	for _, want := range []string{
		"\nsqlstore_disk_reserve_bytes 0\n", `sqlstore_condition{status="True",type="NoSpace"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if !regexp.MustCompile(`(?m)^sqlstore_disk_free_bytes [1-9]`).MatchString(metrics) {
		t.Error("the metrics have no free space of the disk")
	}
}

// freeSpace follows that procedure; the database has the key k.
func freeSpace(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	got, err := c.Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, got.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(ctx, c.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
}
