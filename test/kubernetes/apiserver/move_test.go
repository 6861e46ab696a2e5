package apiserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/programs"
)

// TestMove moves a cluster from etcd to sqlstore on SQLite, from there to Postgres, and back to etcd, while a load is
// being written. Every acknowledged change exists afterwards, and watches go on where they were and show each change
// once and in order.
//
// For each cut-over, a kube-apiserver with its watch cache is paused, and finds the next store at the same address: its
// clients, informers and a kubectl get --watch among them, notice nothing. One without a watch cache stops and starts
// again, with another address: a restart would empty the cache, and make clients list again on any store.
func TestMove(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) { testMove(t, server.config) })
	}
}

func testMove(t *testing.T, config cluster.Config) {
	m := &move{t: t, store: cluster.StartEtcd(t, t.TempDir())}
	m.c = cluster.Start(t, m.store, config)
	// That controller would add ConfigMaps, which nobody expects, to the load's.
	m.c.StartControllerManager(t, "--controllers=*,-root-ca-certificate-publisher-controller")
	trial := newTrial(t, m.c, "move")
	trial.Interrupted = true
	trial.Objects *= 2 // writers go on while a move begins
	var spectators *moveSpectators
	if config.WatchCache {
		spectators = watchMove(t, m.c, trial.Namespaces[0])
	}
	ways := []func(context.Context) error{
		func(ctx context.Context) error {
			return m.cutOver(ctx, "--data-dir="+filepath.Join(t.TempDir(), "sqlite"))
		},
		func(ctx context.Context) error { return m.cutOver(ctx, "--datastore="+pgserver.Database(t)) },
		m.back,
	}
	result, err := trial.Run(t.Context(), func(ctx context.Context) error {
		for i, way := range ways {
			select {
			case <-trial.History.Reached(trial.Objects*(i+1)/2, 0): // there are over four changes per object
			case <-ctx.Done():
				return ctx.Err()
			}
			changes := trial.History.Count()
			if err := way(ctx); err != nil {
				return err
			}
			t.Logf("moved after %d changes, on with %d", changes, trial.History.Count())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result)
	if result.Reopened == 0 || result.Relisted > 0 {
		t.Errorf("watches were opened again %d times, and began with a list %d times", result.Reopened, result.Relisted)
	}
	checkLive(t, m.c, trial)
	if spectators != nil {
		spectators.check(t, result)
	}
}

// move is a cluster and the store under it.
type move struct {
	t     *testing.T
	c     *cluster.Cluster
	store cluster.Store
}

// halt keeps kube-apiserver from writing.
func (m *move) halt() error {
	if m.c.WatchCache {
		return m.c.Pause()
	}
	m.c.Kill()
	return nil
}

// goOn lets kube-apiserver go on, on the next store: at the address of the last one, or at another.
func (m *move) goOn(ctx context.Context, at func(url string) cluster.Store, other func() cluster.Store) error {
	url := m.store.ClientURL()
	m.store.Kill()
	if m.c.WatchCache {
		m.store = at(url)
		return m.c.Resume(ctx)
	}
	m.store = other()
	m.c.RestartOn(m.t, m.store)
	return nil
}

// cutOver moves to a database, named by a flag, that follows the store before kube-apiserver stops.
func (m *move) cutOver(ctx context.Context, database string) error {
	flags := []string{"--from", m.store.ClientURL(), "--work-dir", m.t.TempDir(), database}
	follow := exec.CommandContext(ctx, launch.Binary(m.t), append([]string{"import", "--follow"}, flags...)...)
	stderr, err := follow.StderrPipe()
	if err != nil {
		return err
	}
	if err := follow.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "following from") {
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := m.halt(); err != nil {
		return err
	}
	if err := follow.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	rest, err := io.ReadAll(stderr)
	if err := errors.Join(err, follow.Wait()); err != nil {
		return fmt.Errorf("import: %w: %s", err, rest)
	}
	out, err := exec.CommandContext(ctx, launch.Binary(m.t),
		append([]string{"cutover", "--quiet", "100ms"}, flags...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cutover: %w: %s", err, out)
	}
	m.t.Logf("%s", out)
	return m.goOn(ctx,
		func(url string) cluster.Store { return cluster.StartSQLStoreAt(m.t, url, database) },
		func() cluster.Store { return cluster.StartSQLStore(m.t, database) })
}

// back moves to an etcd that is restored from a snapshot.
func (m *move) back(ctx context.Context) error {
	if err := m.halt(); err != nil {
		return err
	}
	path, dir := filepath.Join(m.t.TempDir(), "snapshot.db"), filepath.Join(m.t.TempDir(), "restored")
	for _, command := range []*exec.Cmd{
		exec.CommandContext(ctx, programs.Etcdctl.Path(m.t), "--endpoints", m.store.ClientURL(), "snapshot", "save",
			path),
		exec.CommandContext(ctx, programs.Etcdutl.Path(m.t), "snapshot", "restore", path, "--data-dir", dir),
	} {
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", command.Args, err, out)
		}
	}
	return m.goOn(ctx,
		func(url string) cluster.Store { return cluster.StartEtcdAt(m.t, url, dir) },
		func() cluster.Store { return cluster.StartEtcd(m.t, dir) })
}
