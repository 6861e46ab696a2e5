package patroni

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
)

const (
	prefix         = "/load/"
	keys           = 40
	writersOfEach  = 2                     // per replica, and as many more that use all replicas
	pace           = 20 * time.Millisecond // between two writes of a writer, so that the run stays small
	requestTimeout = 5 * time.Second
	flowing        = 20 // writes of each writer that show that the cluster is healthy
	everyReplica   = "all replicas"
	settleTimeout  = 30 * time.Second // for watches to see the last write
)

// put is a write as its client knows it.
type put struct {
	key, value string // no other write has this value
	of         string // the replica that its client uses
	ended      time.Time
	revision   int64 // 0 unless it was acknowledged
	err        error
}

// event is a version of a key, from a watch or the database.
type event struct {
	key, value string
	revision   int64
}

// load is the continual load of the clients.
type load struct {
	testing.TB
	from int64 // the revision before the first write

	writing, watching activity
	acked             []atomic.Int64 // writes acknowledged, by writer
	highest           atomic.Int64   // revision acknowledged

	mu   sync.Mutex
	puts []put

	watches []*watch
	control *control
}

// activity is a number of goroutines that end together.
type activity struct {
	sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

func newActivity() activity {
	ctx, cancel := context.WithCancel(context.Background())
	return activity{ctx: ctx, cancel: cancel}
}

// stop ends them and waits for it.
func (a *activity) stop() {
	a.cancel()
	a.Wait()
}

// start puts the replicas under load: writers, a reader and a watch for each.
func start(c *cluster) *load {
	l := &load{TB: c, writing: newActivity(), watching: newActivity()}
	c.Cleanup(func() {
		l.writing.stop()
		l.watching.stop()
	})
	l.from = l.firstWrite(c.Client(c.Replicas...))
	l.highest.Store(l.from)
	l.acked = make([]atomic.Int64, (rig.Replicas+1)*writersOfEach)
	writer := 0
	write := func(of string, client *clientv3.Client) {
		for range writersOfEach {
			i := writer
			writer++
			l.writing.Go(func() { l.write(i, of, client) })
		}
	}
	for i, m := range c.Replicas {
		client := c.Client(m)
		write(m.Name, client)
		l.writing.Go(func() { l.read(m.Name, client) })
		w := &watch{
			of: m.Name, client: c.Client(m), requireLeader: i > 0, next: l.from + 1,
			seen: make(chan struct{}, 1),
		}
		l.watches = append(l.watches, w)
		l.watching.Go(func() { w.run(l.watching.ctx) })
	}
	write(everyReplica, c.Client(c.Replicas...))
	l.control = c.startControl(&l.writing)
	return l
}

// firstWrite waits until replicas answer and returns their revision.
func (l *load) firstWrite(client *clientv3.Client) (revision int64) {
	l.Helper()
	rig.Eventually(l, "replica that takes a write", func() error {
		ctx, cancel := context.WithTimeout(l.writing.ctx, requestTimeout)
		defer cancel()
		r, err := client.Put(ctx, "/first", "")
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision
}

func (l *load) write(writer int, of string, client *clientv3.Client) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ; n++ {
		p := put{
			key: fmt.Sprintf("%s%02d", prefix, (writer*7+n)%keys), value: fmt.Sprintf("%s, %d-%d", of, writer, n),
			of: of,
		}
		ctx, cancel := context.WithTimeout(l.writing.ctx, requestTimeout)
		r, err := client.Put(ctx, p.key, p.value)
		cancel()
		p.ended, p.err = time.Now(), err
		if err == nil {
			p.revision = r.Header.Revision
			for {
				if h := l.highest.Load(); h >= p.revision || l.highest.CompareAndSwap(h, p.revision) {
					break
				}
			}
			l.acked[writer].Add(1)
		}
		l.mu.Lock()
		l.puts = append(l.puts, p)
		l.mu.Unlock()
		select {
		case <-l.writing.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read checks that a read sees what was acknowledged before it, whichever replica acknowledged it.
func (l *load) read(of string, client *clientv3.Client) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for l.writing.ctx.Err() == nil {
		before := l.highest.Load()
		ctx, cancel := context.WithTimeout(l.writing.ctx, requestTimeout)
		r, err := client.Get(ctx, prefix+"00")
		cancel()
		if err == nil && r.Header.Revision < before {
			l.Errorf("a stale read: %s answers at revision %d after a write was acknowledged at %d", of,
				r.Header.Revision, before)
		}
		<-tick.C
	}
}

// flows waits until the cluster has acknowledged writes of every writer.
func (l *load) flows() {
	l.Helper()
	want := make([]int64, len(l.acked))
	for i := range l.acked {
		want[i] = l.acked[i].Load() + flowing
	}
	rig.Eventually(l, "write of each writer", func() error {
		for i := range want {
			if l.acked[i].Load() < want[i] {
				//nolint:errorlint // it may be nil
				return fmt.Errorf("writer %d gets no writes acknowledged; the last one that failed: %v", i,
					l.lastError())
			}
		}
		return nil
	})
}

func (l *load) lastError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range slices.Backward(l.puts) {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// outage returns the longest time between two acknowledged writes of the clients of each replica, and of all clients,
// that ended in the given span.
func (l *load) outage(began, ended time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, longest, failed := map[string]time.Time{}, map[string]time.Duration{}, 0
	for _, p := range l.puts {
		if p.ended.Before(began) || p.ended.After(ended) {
			if p.ended.Before(began) && p.err == nil {
				last[p.of], last[""] = p.ended, p.ended
			}
			continue
		}
		if p.err != nil {
			failed++
			continue
		}
		for _, of := range []string{p.of, ""} {
			if !last[of].IsZero() {
				longest[of] = max(longest[of], p.ended.Sub(last[of]))
			}
			last[of] = p.ended
		}
	}
	all := longest[""].Seconds()
	delete(longest, "")
	var each []string
	for of, d := range longest {
		each = append(each, fmt.Sprintf("%s %.1f s", of, d.Seconds()))
	}
	slices.Sort(each)
	return fmt.Sprintf("%.1f s without an acknowledged write (by the clients' replica: %s), %d writes failed", all,
		strings.Join(each, ", "), failed)
}
