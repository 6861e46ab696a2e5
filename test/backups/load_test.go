package backups

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const prefix = "/registry/"

// load writes to a store, one write after the other, and knows the keys at every revision.
type load struct {
	t      *testing.T
	client *clientv3.Client
	rnd    *rand.Rand
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	now    map[string]string
	states map[int64]map[string]string
	last   int64
	acked  int // writes that were acknowledged
}

// startLoad begins to write.
func startLoad(t *testing.T, seed uint64, endpoints ...string) *load {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 10 * time.Second,
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l := &load{
		t: t, client: client, rnd: rand.New(rand.NewPCG(seed, 2)), stop: stop, done: make(chan struct{}),
		now: map[string]string{}, states: map[int64]map[string]string{},
	}
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			l.write(ctx)
		}
	}()
	t.Cleanup(func() {
		l.end()
		_ = client.Close()
	})
	return l
}

// end ends the writes.
func (l *load) end() {
	l.stop()
	<-l.done
}

// write writes once. If the outcome is unknown, it finds out.
func (l *load) write(ctx context.Context) {
	key := fmt.Sprint(prefix, l.rnd.IntN(200))
	value := fmt.Sprint(l.rnd.Uint64(), key)
	begun, cancel := context.WithTimeout(ctx, 2*time.Second)
	var revision int64
	var err error
	remove := l.rnd.IntN(5) == 0
	if remove {
		var res *clientv3.DeleteResponse
		if res, err = l.client.Delete(begun, key); err == nil && res.Deleted == 0 {
			cancel()
			return
		} else if err == nil {
			revision = res.Header.Revision
		}
	} else {
		var res *clientv3.PutResponse
		if res, err = l.client.Put(begun, key, value); err == nil {
			revision = res.Header.Revision
		}
	}
	cancel()
	if err == nil {
		l.note(key, value, remove, revision, true)
		return
	}
	l.resolve(context.WithoutCancel(ctx), key, value, remove)
}

// resolve finds out whether a write happened whose answer was lost. Nobody else writes, so its revision is that of the
// store, and the key shows it.
func (l *load) resolve(ctx context.Context, key, value string, remove bool) {
	for end := time.Now().Add(time.Minute); ; {
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		// A write of its own comes after the lost one, which the server may still hold.
		res, err := l.client.Put(asked, prefix+"resolved", value)
		if err == nil {
			var got *clientv3.GetResponse
			if got, err = l.client.Get(asked, key, clientv3.WithRev(res.Header.Revision)); err == nil {
				exists := len(got.Kvs) > 0
				switch {
				case remove && !exists:
					l.note(key, "", true, res.Header.Revision-1, false)
				case !remove && exists && string(got.Kvs[0].Value) == value:
					l.note(key, value, false, got.Kvs[0].ModRevision, false)
				}
				l.note(prefix+"resolved", value, false, res.Header.Revision, true)
			}
		}
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.t.Errorf("the store does not recover: %v", err)
			return
		}
	}
}

func (l *load) note(key, value string, remove bool, revision int64, acked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if remove {
		delete(l.now, key)
	} else {
		l.now[key] = value
	}
	l.last = revision
	l.states[revision] = maps.Clone(l.now)
	if acked {
		l.acked++
	}
}

// written returns the last revision that is known.
func (l *load) written() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// at returns the keys at a revision, false if it is not known.
func (l *load) at(revision int64) (map[string]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, ok := l.states[revision]
	return state, ok
}
