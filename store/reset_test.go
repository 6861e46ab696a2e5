package store

import (
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/test/pgserver"
)

// TestIncarnationFollowsWhatIsRead stops a replica that has noticed lost history before its index is reset: who reads then must not be
// told the new incarnation first.
func TestIncarnationFollowsWhatIsRead(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for range 5 {
		put(t, s, "k", "v")
	}
	eventually(t, "the index is loaded", s.index.whole)
	s.index.mu.RLock()
	release := sync.OnceFunc(s.index.mu.RUnlock)
	defer release()
	execute(t, dsn, "UPDATE clock SET revision = 4")
	eventually(t, "the index is to be reset", func() bool {
		free := s.index.mu.TryRLock()
		if free {
			s.index.mu.RUnlock()
		}
		return !free
	})
	before, rev := s.Incarnation(), s.index.rev
	release()
	if before != 1 || rev != 6 {
		t.Errorf("incarnation %d while reads are at %d", before, rev)
	}
	eventually(t, "the incarnation is raised", func() bool { return s.Incarnation() == 2 })
	if rev := s.Revision(); rev != 4 {
		t.Errorf("incarnation 2 with reads at %d", rev)
	}
}
