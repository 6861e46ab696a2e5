package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// TestTimeTravel replays kubernetes#107457: a store goes back to an older state, restored from its continuous backups,
// while kube-apiserver with and without watch cache, informers of both, and kube-controller-manager keep running. By
// default, revisions are lifted, and all of them end with what the store has. With --keep-revisions they keep what the
// store does not have, and miss what is written under revisions that they have already seen.
func TestTimeTravel(t *testing.T) {
	m := &timeMachine{data: filepath.Join(t.TempDir(), "data"), backups: t.TempDir()}
	m.store = cluster.StartSQLStore(t, "--data-dir="+m.data, "--backup-to="+m.backups, "--backup-interval=200ms")
	for _, server := range servers {
		c := cluster.Start(t, m.store, server.config)
		m.clusters = append(m.clusters, c)
		if c.WatchCache {
			c.StartControllerManager(t, "--controllers=replicaset-controller")
		} else {
			m.direct = c
		}
	}
	t.Run("Lifted", func(t *testing.T) {
		j := m.depart(t, "lifted")
		m.restore(t, j.point)
		j.arrive(t)
		if v := slices.Min(j.arrived(t)); v <= j.seen {
			t.Errorf("after the restore, revision %d is written, although %d has been seen", v, j.seen)
		}
		j.checkEqual(t)
	})
	// Last, because it leaves wrong caches behind.
	t.Run("Kept", func(t *testing.T) {
		j := m.depart(t, "kept")
		m.restore(t, j.point, "--keep-revisions")
		j.arrive(t)
		if v := slices.Max(j.arrived(t)); v > j.seen {
			t.Fatalf("after the restore, revision %d is written, which proves nothing: %d has been seen", v, j.seen)
		}
		j.checkDamage(t)
	})
}

// timeMachine is a store with backups, and the kube-apiservers on it.
type timeMachine struct {
	data, backups string
	store         cluster.Store
	clusters      []*cluster.Cluster
	direct        *cluster.Cluster // the one without watch cache, which asks the store each time
}

// restore loses the store, and starts one at the same address that is restored at a revision.
func (m *timeMachine) restore(t *testing.T, revision int64, flags ...string) {
	t.Helper()
	await(t, "the revision is saved", func(ctx context.Context) error { return m.saved(ctx, t, revision) })
	m.store.Kill()
	if err := os.Rename(m.data, filepath.Join(t.TempDir(), "lost")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), launch.Binary(t), append([]string{
		"restore", "--from", m.backups, "--to-revision", strconv.FormatInt(revision, 10), "--data-dir", m.data,
	}, flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	t.Logf("%s", out)
	m.store.Restart(t)
}

// saved returns an error until the backups reach a revision.
func (m *timeMachine) saved(ctx context.Context, t *testing.T, revision int64) error {
	t.Helper()
	out, err := exec.CommandContext(ctx, launch.Binary(t), "backup", "list", "--from", m.backups).Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		var first, last int64
		if fields := strings.Fields(line); len(fields) < 4 {
			continue
		} else if _, err := fmt.Sscanf(fields[3], "%d-%d", &first, &last); err == nil && last >= revision {
			return nil
		}
	}
	return fmt.Errorf("want revision %d: %s", revision, out)
}

// await waits until there is no error.
func await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := until(t.Context(), func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain until %s: %v", what, last)
	}
}
