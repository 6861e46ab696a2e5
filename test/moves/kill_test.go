package moves

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// An export that is killed leaves no half of a database: the same command writes all of it, or says that it is there.
func TestExportKilled(t *testing.T) {
	source := launch.Start(t, launch.Config{Args: []string{"--unsafe-no-fsync"}})
	client := connect(t, source.Endpoint())
	value := strings.Repeat("v", 2000)
	for i := range 1500 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("%sitem-%d", prefix, i%500), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(t.Context(), prefix+"item-7", clientv3.WithPrevKV()); err != nil {
		t.Fatal(err)
	}
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, d := range databases(t) {
		t.Run(d.name, func(t *testing.T) {
			_, whole := d.create(t)
			began := time.Now()
			if err := export(t, source.DataDir(), whole); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			for range 4 {
				_, to := d.create(t)
				ended := killExport(t, rand.N(2*took), source.DataDir(), to)
				err := export(t, source.DataDir(), to)
				t.Logf("the export had ended: %v; the next one: %v", ended, err)
				if err != nil && !errors.Is(err, kine.ErrNotEmpty) || ended && err == nil {
					t.Errorf("the export had ended: %v; the next one: %v", ended, err)
				}
				if !slices.EqualFunc(all(t, openKine(t, to).Rows), all(t, openKine(t, whole).Rows), equal) {
					t.Error("the exported rows differ")
				}
			}
		})
	}
}

// killExport exports with the command, kills it after a while, and reports whether it had ended before.
func killExport(t *testing.T, after time.Duration, dir, to string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	out, err := exec.CommandContext(ctx, launch.Binary(t), "export", "--data-dir", dir, "--to", to).CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("export: %v: %s", err, out)
	}
	return err == nil
}

func openKine(t *testing.T, url string) *kine.Source {
	t.Helper()
	s, err := kine.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
