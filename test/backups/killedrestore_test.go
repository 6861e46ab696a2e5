package backups

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A restore that is killed at random moments is finished by the same command, also while the backup goes on, and until
// then no server opens the target.
func TestKilledRestore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(env.Seed.Uint(t, rand.Uint64()), 3))
	const keys, valueBytes = 400, 100_000 // several transactions of a restore
	b := &bucket{url: filepath.Join(t.TempDir(), "backups")}
	s := launch.Start(t, launch.Config{Args: append(often(b, time.Hour), "--unsafe-no-fsync")})
	client := connect(t, s.Endpoint())
	want, revision := map[string]string{}, int64(0)
	for i := range keys {
		key, value := fmt.Sprint(prefix, i), strings.Repeat(fmt.Sprint(i%10), valueBytes)
		revision = put(t, client, key, value)
		want[key] = value
	}
	point := []string{"--to-revision", fmt.Sprint(revision)}
	ends := func() int64 { all := b.chains(t); return all[len(all)-1][1] }
	wait(t, "everything is saved", func() bool { return len(b.chains(t)) > 0 && ends() >= revision })
	for name, target := range map[string]func(t *testing.T) []string{
		"sqlite": func(t *testing.T) []string { return []string{"--data-dir", filepath.Join(t.TempDir(), "d")} },
		"postgres": func(t *testing.T) []string {
			return []string{"--datastore", pgserver.Database(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			restore := append([]string{"restore", "--from", b.url}, point...)
			began := time.Now()
			b.must(t, append(restore, target(t)...)...)
			takes := time.Since(began)
			continued := 0
			for range 4 {
				into := target(t)
				kills := 0
				for range 3 {
					if b.killed(t, time.Duration(rnd.Int64N(int64(takes))), append(restore, into...)) {
						kills++
					}
					last := put(t, client, "elsewhere", "")
					wait(t, "the backup goes on", func() bool { return ends() >= last })
				}
				var out string
				var err error
				wait(t, "the restore ends", func() bool {
					out, err = b.run(t, append(restore, into...)...)
					return err == nil || !strings.Contains(err.Error(), "run the command again")
				})
				switch {
				case err == nil && !strings.Contains(out, fmt.Sprintf("(%d of them now)", keys)):
					continued++
				case err != nil && !strings.Contains(err.Error(), "the target holds data"): // a run had ended
					t.Errorf("after %d kills: %v", kills, err)
				}
				checkTarget(t, into, want)
			}
			t.Logf("%d restores continued what a killed one had written", continued)
		})
	}
}

// killed runs sqlstore, kills it after a while, and reports whether it was still running.
func (b *bucket) killed(t *testing.T, after time.Duration, args []string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return !cmd.ProcessState.Exited()
}

// checkTarget compares what a server serves with what was saved.
func checkTarget(t *testing.T, target []string, want map[string]string) {
	t.Helper()
	cfg := launch.Config{Args: target}
	if target[0] == "--data-dir" {
		cfg = launch.Config{DataDir: target[1]}
	}
	server := launch.Start(t, cfg)
	client := connect(t, server.Endpoint())
	res, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err := errors.Join(err, server.Stop()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, kv := range res.Kvs {
		got[string(kv.Key)] = string(kv.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d keys restored, want %d", len(got), len(want))
	}
}

func connect(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(), MaxCallRecvMsgSize: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t *testing.T, client *clientv3.Client, key, value string) (revision int64) {
	t.Helper()
	res, err := client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header.Revision
}

// A target that holds data, or that a server serves, is refused before the backup is read.
func TestRestoreRefuses(t *testing.T) {
	nothing := &bucket{url: t.TempDir()} // reading it fails
	refused := func(t *testing.T, says string, target ...string) {
		t.Helper()
		_, err := nothing.run(t, append([]string{"restore", "--from", nothing.url}, target...)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		s := launch.Start(t, launch.Config{})
		refused(t, "in use", "--data-dir", s.DataDir())
		put(t, connect(t, s.Endpoint()), "k", "v")
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		refused(t, "the target holds data", "--data-dir", s.DataDir())
		refused(t, "there are no backups", "--data-dir", filepath.Join(t.TempDir(), "new"))
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := pgserver.Database(t)
		s := launch.Start(t, launch.Config{Args: []string{"--datastore", dsn}})
		refused(t, "serves it", "--datastore", dsn)
		put(t, connect(t, s.Endpoint()), "k", "v")
		refused(t, "the target holds data", "--datastore", dsn)
	})
}
