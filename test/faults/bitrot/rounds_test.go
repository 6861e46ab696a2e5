package bitrot

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

const (
	operations   = 900
	maxFlips     = 8 // in one round
	startTimeout = time.Minute
)

// place is a database whose files rot.
type place struct {
	dir   string // the files, restored for each round
	sound string // an undamaged copy of them
	files []*file
	truth *truth

	config sqlstore.Config
	// up and down start and stop the server of the database, if there is one.
	up, down func() error
	// undetected reports whether the docs list a flip as not detected.
	undetected func(f *flip, running bool) bool
}

// rot runs rounds until enough bits have flipped.
func rot(t *testing.T, p *place) {
	t.Helper()
	flips := env.Length.Count(t, 100)
	seed := env.Seed.Uint(t, rand.Uint64())
	r := newReport()
	for wrong := 0; r.flips < flips && wrong < 10; seed++ {
		rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
		running := rng.IntN(2) == 0
		var chosen []*flip
		n := min(1+rng.IntN(maxFlips), flips-r.flips)
		a := p.round(t, seed, running, func() (err error) {
			chosen, err = choose(rng, p.dir, p.files, n)
			return errors.Join(err, apply(p.dir, chosen))
		})
		if running {
			r.running++
		}
		r.add(chosen, a)
		if a == nil || len(a.wrong) == 0 {
			continue
		}
		var left []*flip
		for _, f := range chosen {
			if !p.undetected(f, running) {
				left = append(left, f)
			}
		}
		again := a
		if len(left) < len(chosen) {
			again = p.round(t, seed, running, func() error { return apply(p.dir, left) })
		}
		if again == nil || len(again.wrong) == 0 {
			r.undetected++
			for _, f := range chosen {
				if p.undetected(f, running) {
					r.undetectedBy[f.where]++
				}
			}
			continue
		}
		wrong++
		t.Errorf("%d wrong answers, the first: %s\nflipped while the server ran: %t; flips: %v\nrepeat with "+
			"SQLSTORE_TEST_SEED=%d SQLSTORE_TEST_LENGTH=%d", len(again.wrong), again.wrong[0], running, left, seed, n)
	}
	t.Log(r)
	r.enough(t)
}

// round restores the files, damages them before or after the start of the server, and reads everything. It returns nil
// if the server does not start on damaged files.
func (p *place) round(t *testing.T, seed uint64, running bool, damage func() error) *answers {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	check(os.RemoveAll(p.dir))
	check(copyFiles(p.sound, p.dir))
	if !running {
		check(damage())
	}
	check(p.up())
	defer func() { check(p.down()) }()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := sqlstore.Start(ctx, p.config)
	if err != nil {
		if running {
			check(err)
		}
		return nil
	}
	defer func() { _ = s.Close() }() // may fail on damaged files
	c, err := dial(t.Context(), s.Endpoints()[0])
	check(err)
	defer c.Close()
	if running {
		_, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		check(err)
		check(p.down())
		check(damage())
		check(p.up())
	}
	return readAll(t.Context(), c, p.truth, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // repeatable
}

func copyFiles(from, to string) error {
	return exec.Command("cp", "-a", from, to).Run()
}

// directory returns a directory that is removed when the test ends.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bitrot-") //nolint:usetesting // Postgres' user may not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // for Postgres' user
		t.Fatal(err)
	}
	return dir
}

// write fills a new database and checks that all answers about it are right. It calls halfway in the middle of the
// load, and then before the server stops.
func write(t *testing.T, config sqlstore.Config, halfway func(), then func()) *truth {
	t.Helper()
	s, err := sqlstore.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), s.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	tr := fill(t, c, rand.New(rand.NewPCG(1, 2)), operations, halfway) //nolint:gosec // repeatable
	a := readAll(t.Context(), c, tr, rand.New(rand.NewPCG(1, 3)))      //nolint:gosec // repeatable
	if a.errors > 0 || len(a.wrong) > 0 {
		t.Fatalf("before any flip: %d errors, wrong answers %q", a.errors, a.wrong)
	}
	then()
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return tr
}

// existing returns those of the files that exist and are not empty.
func existing(dir string, files []*file) (there []*file) {
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(dir, f.path)); err == nil && info.Size() > 0 {
			there = append(there, f)
		}
	}
	return there
}
