package etcdshim

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// mostSnapshots is the maximum number of concurrent snapshots: each reads the whole database, and rows that it
	// covers are not purged before it ends.
	mostSnapshots = 4
	// snapshotProgress is how much a client must read within the time limit to count as making progress.
	snapshotProgress = 256 << 10
	// snapshotTimeout is how long a client may make no progress, snapshotGrace how long while others wait for its
	// slot.
	snapshotTimeout = 5 * time.Minute
	snapshotGrace   = 5 * time.Second
)

var errSnapshotSlow = status.Error(codes.ResourceExhausted,
	"etcdserver: the client read the snapshot too slowly, and others wait for one: try again")

// snapshots limits those that are sent. A client that makes no progress gives way to those that wait.
type snapshots struct {
	slots chan struct{}

	mu   sync.Mutex
	sent []*sending
}

// sending is a snapshot on its way to a client.
type sending struct {
	of  *snapshots
	cut chan struct{} // closed when it must end

	// Guarded by of.mu.
	over    bool
	pending int       // bytes read since then
	since   time.Time // when the last snapshotProgress bytes were read
	timer   *time.Timer
}

func newSnapshots() *snapshots {
	return &snapshots{slots: make(chan struct{}, mostSnapshots)}
}

// acquire waits for a free slot.
func (s *snapshots) acquire(ctx context.Context) error {
	for {
		select {
		case s.slots <- struct{}{}:
			return nil
		default:
		}
		again := time.NewTimer(s.evict())
		select {
		case s.slots <- struct{}{}:
			again.Stop()
			return nil
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
	}
}

func (s *snapshots) release() { <-s.slots }

// evict cuts off the client that has made no progress for the longest time, if that is long enough, and returns when
// to check again.
func (s *snapshots) evict() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var still *sending
	for _, x := range s.sent {
		if !x.over && (still == nil || x.since.Before(still.since)) {
			still = x
		}
	}
	if still == nil {
		return snapshotGrace
	}
	if left := snapshotGrace - time.Since(still.since); left > 0 {
		return left
	}
	still.end()
	return snapshotGrace
}

// send registers a snapshot that is being sent.
func (s *snapshots) send() *sending {
	x := &sending{of: s, cut: make(chan struct{}), since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, x)
	x.timer = time.AfterFunc(snapshotTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.end()
	})
	return x
}

// end cuts x off. Callers hold of.mu.
func (x *sending) end() {
	if !x.over {
		x.over = true
		close(x.cut)
	}
}

// advance records that the client has read n bytes.
func (x *sending) advance(n int) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.pending += n; x.pending >= snapshotProgress {
		x.pending, x.since = 0, time.Now()
		x.timer.Reset(snapshotTimeout)
	}
}

// done means that nothing more is sent.
func (x *sending) done() {
	x.timer.Stop()
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.of.sent = slices.DeleteFunc(x.of.sent, func(o *sending) bool { return o == x })
}
