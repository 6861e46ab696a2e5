package e2e

import (
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// tokenKeys runs `sqlstore token-keys` over the store's database.
func (s *store) tokenKeys(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), append([]string{"token-keys"}, args...)...)
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sqlstore %v: %v: %s", args, err, out)
	}
}

// TestRotation seals tokens with one key, makes another one, and drops the first: its tokens work until then.
func TestRotation(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { // whose owner has to be stopped
		s := startSQLite(t)
		s.fill(t, 10)
		s.rotate(t, func(args ...string) {
			if err := s.servers[0].Stop(); err != nil {
				t.Fatal(err)
			}
			s.tokenKeys(t, args...)
			s.servers[0].Restart(t)
		})
	})
	t.Run("postgres", func(t *testing.T) { // while the replicas run
		s := start(t, datastore.Choice{Postgres: true, Replicas: 2})
		s.fill(t, 10)
		s.rotate(t, func(args ...string) { s.tokenKeys(t, args...) })
	})
}

func (s *store) rotate(t *testing.T, keys func(args ...string)) {
	t.Helper()
	old := s.firstPage(t, "/load/")
	works := func(token string) {
		t.Helper()
		for range s.servers {
			s.must(t, http.StatusOK, s.behind("/load/", token))
		}
	}
	works(old)
	keys("rotate")
	works(old)
	between := s.firstPage(t, "/load/")
	works(between)
	keys("rotate", "--revoke")
	for range s.servers {
		s.comesToRefuse(t, "/load/", old)
		s.comesToRefuse(t, "/load/", between)
	}
	works(s.firstPage(t, "/load/"))
}

// comesToRefuse waits until the next replica in turn refuses a token: it learns of a revocation within a minute.
func (s *store) comesToRefuse(t *testing.T, prefix, token string) {
	t.Helper()
	r, end := s.behind(prefix, token), time.After(testTimeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body, err := s.do(t.Context(), r)
		switch {
		case err != nil:
			t.Fatal(err)
		case code == http.StatusBadRequest:
			return
		case code != http.StatusOK:
			t.Fatalf("%d %s", code, body)
		}
		select {
		case <-end:
			t.Fatal("a revoked token is still taken")
		case <-tick.C:
		}
	}
}
