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
	// snapshotTimeout is how long a client may take to receive a message, snapshotGrace how long while others wait for
	// its slot.
	snapshotTimeout = 5 * time.Minute
	snapshotGrace   = 5 * time.Second
	// snapshotSlack is how long a client may take altogether beyond what it takes at snapshotRate, in bytes a second.
	snapshotSlack = 10 * time.Minute
	snapshotRate  = 128 << 10
)

var errSnapshotSlow = status.Error(codes.ResourceExhausted,
	"etcdserver: the client read the snapshot too slowly: try again")

// snapshots limits those that are sent. A client that does not read gives way to those that wait.
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
	over     bool
	since    time.Time // when the client was to receive a message; zero if none waits for it
	deadline time.Time // when it must have received it
	sent     int64     // bytes that it has received
	took     time.Duration
	timer    *time.Timer
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

// evict cuts off the client for which a message has waited for the longest time, if that is long enough, and returns
// when to check again.
func (s *snapshots) evict() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var still *sending
	for _, x := range s.sent {
		if !x.over && !x.since.IsZero() && (still == nil || x.since.Before(still.since)) {
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
	x := &sending{of: s, cut: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, x)
	return x
}

// end cuts x off. Callers hold of.mu.
func (x *sending) end() {
	if !x.over {
		x.over = true
		close(x.cut)
	}
}

// begin records that the client is to receive a message.
func (x *sending) begin() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	left := snapshotSlack + time.Duration(x.sent/snapshotRate)*time.Second - x.took
	x.since = time.Now()
	x.deadline = x.since.Add(min(snapshotTimeout, left))
	if x.timer == nil {
		x.timer = time.AfterFunc(time.Until(x.deadline), x.expire)
	} else {
		x.timer.Reset(time.Until(x.deadline))
	}
}

// expire cuts the client off, unless it has received the message just before.
func (x *sending) expire() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if !x.since.IsZero() && !time.Now().Before(x.deadline) {
		x.end()
	}
}

// advance records that the client has received n bytes.
func (x *sending) advance(n int) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.sent += int64(n)
	x.took += time.Since(x.since)
	x.since = time.Time{}
	x.timer.Stop()
}

// done means that nothing more is sent.
func (x *sending) done() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.timer != nil {
		x.timer.Stop()
	}
	x.of.sent = slices.DeleteFunc(x.of.sent, func(o *sending) bool { return o == x })
}
