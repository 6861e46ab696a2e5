package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// killWithin runs sqlstore, and kills it after a random part of most, unless it has ended before. It reports whether it
// was killed. One that was killed while it began leaves a mark, which the next ones respect for a while, as they say:
// killWithin runs it again until then.
func killWithin(t *testing.T, most time.Duration, args ...string) bool {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(most))
		out, err := exec.CommandContext(ctx, launch.Binary(t), args...).CombinedOutput()
		killed := ctx.Err() != nil
		cancel()
		if err == nil || killed {
			return err != nil
		}
		if !strings.Contains(string(out), "or was killed when it did: wait") {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
}

// A cut-over that is killed again and again leaves a target that no server opens, or one that is complete. Then the
// command says so.
func TestCutoverKilled(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync", "--bcrypt-cost", "4")
	source := connect(t, etcd)
	rnd := rand.New(rand.NewPCG(1, 2))
	churn(t, source, rnd, 1000)
	for name, target := range importTargets(t) {
		flags := []string{"--from", etcd.ClientURL(), "--work-dir", t.TempDir(), target}
		cutover := append([]string{"cutover", "--quiet", "1ms", "--keep-cluster-id"}, flags...)
		s := startProgram(t, launch.Binary(t), append([]string{"import", "--follow"}, flags...)...)
		for !strings.HasPrefix(s.line(), "following from revision") {
		}
		s.kill()
		s.ended()
		killed := 0
		for most := 50 * time.Millisecond; ; most += most / 2 {
			churn(t, source, rnd, 20)
			ctl(t, etcd.Endpoint(), "", "user", "add", fmt.Sprint("user", rnd.Int())+":password").must(t)
			if !killWithin(t, most, cutover...) {
				break
			}
			if killed++; opened(t, target) {
				t.Logf("%s: the last one had opened the target", name)
				break
			}
		}
		if r := sqlstore(t, cutover...); r.code == 0 || !strings.Contains(r.stderr, "the database is open") {
			t.Errorf("%s: another cut-over: exit code %d, %q", name, r.code, r.stderr)
		}
		t.Logf("%s: killed %d times", name, killed)
		sqlstore(t, "check", target).must(t)
		compareNow(t, source, connect(t, launch.Start(t, launch.Config{Args: []string{target}})))
	}
}

// opened reports whether servers can open a target.
func opened(t *testing.T, target string) bool {
	t.Helper()
	db := openTarget(t, target)
	defer db.Close()
	var unfinished int
	err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM settings WHERE name = 'import_source' AND value <> 0").
		Scan(&unfinished)
	if err != nil {
		t.Fatal(err)
	}
	return unfinished == 0
}
