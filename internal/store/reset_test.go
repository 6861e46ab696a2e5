package store

import (
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestEpochFollowsWhatIsRead halts a replica after it notices lost history and before it resets its index: until then
// no read may see the new epoch.
func TestEpochFollowsWhatIsRead(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for range 5 {
		put(t, s, "k", "v")
	}
	eventually(t, "the index is loaded", s.index.Complete)
	held, done := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(done) })
	defer release()
	go s.index.View(func(*index.Tree, bool) {
		close(held)
		<-done
	})
	<-held
	execute(t, dsn, "UPDATE clock SET revision = 4")
	eventually(t, "the pending reset blocks other users of the index", func() bool {
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			s.index.Position()
		}()
		select {
		case <-listed:
			return false
		case <-time.After(100 * time.Millisecond):
			return true
		}
	})
	if epoch := s.Epoch(); epoch != 1 {
		t.Errorf("epoch %d while reads return epoch 1", epoch)
	}
	release()
	eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 2 })
	if rev := s.Revision(); rev != 4 {
		t.Errorf("epoch 2 while reads return revision %d", rev)
	}
}
