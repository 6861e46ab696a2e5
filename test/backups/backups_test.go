package backups

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// often are the flags of a server that saves several times a second, and begins a chain every few seconds.
func often(b *bucket, full time.Duration) []string {
	return []string{
		"--backup-to", b.url, "--backup-interval", "200ms", "--backup-full-interval", full.String(),
	}
}

// Backups in S3 survive uploads that are cut off in the middle, and an S3 that is away for a while.
func TestS3(t *testing.T) {
	seed := env.Seed.Uint(t, rand.Uint64())
	g := startGateway(t)
	c := startCutter(t, g.address, seed)
	b := &bucket{
		url: "s3://backups?use_path_style=true&endpoint=http://" + c.Addr().String(),
		env: []string{
			"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_EC2_METADATA_DISABLED=true",
		},
	}
	s := launch.Start(t, launch.Config{Args: append(often(b, 3*time.Second), "--log-level=debug"), Env: b.env})
	l := startLoad(t, seed, s.Endpoint())
	wait(t, "some uploads are cut", func() bool { return c.cuts.Load() >= 20 && l.written() > 500 })
	g.kill()
	wait(t, "BackupStale while S3 is away", func() bool { return stale(t, s) })
	g.start()
	c.off.Store(true)
	wait(t, "BackupStale ends", func() bool { return !stale(t, s) })
	l.end()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	all := b.chains(t)
	if last := all[len(all)-1][1]; last < l.written() {
		t.Errorf("saved up to revision %d, want %d", last, l.written())
	}
	b.checkSome(t, l, 4)
	t.Logf("%d chains, %d uploads cut, %d writes", len(all), c.cuts.Load(), l.acked)
}

// A server that is killed at any moment has saved what its files say, and goes on with the same chain afterwards.
func TestKills(t *testing.T) {
	seed := env.Seed.Uint(t, rand.Uint64())
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := &bucket{url: filepath.Join(t.TempDir(), "backups")}
	s := launch.Start(t, launch.Config{Args: often(b, time.Hour)})
	l := startLoad(t, seed, s.Endpoint())
	for range 8 {
		saved := int64(0)
		if all := b.chains(t); len(all) > 0 {
			saved = all[len(all)-1][1]
		}
		wait(t, "something is saved", func() bool {
			all := b.chains(t)
			return len(all) > 0 && all[len(all)-1][1] > saved
		})
		moment := l.written() + rnd.Int64N(200)
		wait(t, "the random moment of the kill", func() bool { return l.written() >= moment })
		s.Kill()
		b.checkSome(t, l, 1)
		s.Restart(t)
	}
	wait(t, "everything is saved", func() bool { all := b.chains(t); return all[len(all)-1][1] > l.written()-100 })
	l.end()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	all := b.chains(t)
	if len(all) != 1 || all[0][1] != l.written() {
		t.Errorf("chains %v, want one up to revision %d", all, l.written())
	}
	b.checkSome(t, l, 4)
}

// Of three replicas, one makes the backups. When it is killed, another goes on with the same chain.
func TestReplicas(t *testing.T) {
	seed := env.Seed.Uint(t, rand.Uint64())
	b := &bucket{url: filepath.Join(t.TempDir(), "backups")}
	replicas := datastore.Choice{Postgres: true, Replicas: 3}.Start(t, launch.Config{Args: often(b, time.Hour)})
	l := startLoad(t, seed, datastore.Endpoints(replicas)...)
	for range 2 {
		saved := l.written()
		wait(t, "something is saved", func() bool {
			all := b.chains(t)
			return len(all) > 0 && all[len(all)-1][1] > saved
		})
		leader := saving(t, replicas)
		if len(leader) != 1 {
			t.Fatalf("%d replicas make backups", len(leader))
		}
		leader[0].Kill()
		saved = l.written()
		wait(t, "another replica goes on", func() bool { all := b.chains(t); return all[len(all)-1][1] > saved })
		leader[0].Restart(t)
	}
	l.end()
	for _, s := range replicas {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	all := b.chains(t)
	if len(all) != 1 || all[0][1] < l.written()-1000 {
		t.Errorf("chains %v, want one up to revision %d", all, l.written())
	}
	b.checkSome(t, l, 4)
}

// saving returns the replicas that make backups.
func saving(t *testing.T, replicas []*launch.Server) (all []*launch.Server) {
	t.Helper()
	for _, s := range replicas {
		for line := range strings.Lines(get(t, s.MetricsURL()+"/metrics")) {
			var at float64
			if n, _ := fmt.Sscanf(line, "sqlstore_backup_saved_timestamp_seconds %g", &at); n == 1 && at > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

func stale(t *testing.T, s *launch.Server) bool {
	t.Helper()
	var status struct {
		Conditions []struct{ Type, Status string }
	}
	if err := json.Unmarshal([]byte(get(t, s.MetricsURL()+"/status")), &status); err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Conditions {
		if c.Type == "BackupStale" && c.Status == "True" {
			return true
		}
	}
	return false
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// wait waits until something that can be observed is so.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
