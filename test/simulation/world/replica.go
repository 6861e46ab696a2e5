package world

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// replica is a server process without its network: a store and its compactor.
type replica struct {
	w    *World
	name string

	mu     sync.Mutex
	store  *store.Store // nil while it is down or starts
	remote *remote      // serves the etcd API; nil if clients use the store itself
	client *simdb.Client
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// current returns the replica's store, nil while it is down.
func (r *replica) current() *store.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store
}

// api returns what clients use of the replica, nil while it is down.
func (r *replica) api() api {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.store == nil:
		return nil
	case r.remote != nil:
		return r.remote
	}
	return local{r.store}
}

// number is the database client's number.
func (r *replica) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client.Number()
}

// openRetry is how long a start waits before it tries again, as in the server.
const openRetry = time.Second

// start starts the replica in the background.
func (r *replica) start() {
	ctx, stop := context.WithCancel(context.Background())
	client := r.w.cluster.Open()
	r.mu.Lock()
	r.client, r.stop = client, stop
	r.mu.Unlock()
	r.done.Go(func() {
		s := r.open(ctx, client)
		if s == nil {
			return
		}
		if !r.serve(ctx, s) {
			return
		}
		c, err := compactor.New(s, compactor.Config{
			Mode: compactor.Periodic, Retention: "20s",
			Jitter: func(time.Duration) time.Duration { return 0 },
		})
		if err != nil {
			r.w.problem("compactor: %v", err)
			return
		}
		c.Run(ctx)
		r.leave()
	})
}

// serve lets clients in.
func (r *replica) serve(ctx context.Context, s *store.Store) bool {
	var served *remote
	if r.w.plan.remote {
		var err error
		if served, err = newRemote(ctx, r.name, s); err != nil {
			r.w.problem("serve: %v", err)
			return false
		}
		r.done.Go(served.serve)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store, r.remote = s, served
	return true
}

// leave lets no clients in any more.
func (r *replica) leave() {
	r.mu.Lock()
	served := r.remote
	r.mu.Unlock()
	if served != nil {
		served.close()
	}
}

// open opens the store as the server does: until the database answers.
func (r *replica) open(ctx context.Context, client *simdb.Client) *store.Store {
	for {
		s, err := store.Open(ctx, client, store.Config{
			Name: r.name, ClientURLs: []string{"http://" + r.name}, Logger: r.w.log.With("replica", r.name),
			MaxStaleness: r.w.plan.staleness, CacheBytes: cacheBytes, WindowBytes: windowBytes,
			WatcherBytes: watcherBytes, WatchBytes: watchBytes, ProgressInterval: 2 * time.Second,
		})
		if err == nil {
			return s
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openRetry):
		}
	}
}

// Budgets of a store, small enough that a run exceeds them.
const (
	cacheBytes   = 64 << 10
	windowBytes  = 32 << 10
	watcherBytes = 16 << 10
	watchBytes   = 64 << 10
)

// close stops the replica. Afterwards, start starts a new process.
func (r *replica) close() {
	r.mu.Lock()
	stop, client := r.stop, r.client
	r.mu.Unlock()
	stop()
	r.done.Wait()
	r.mu.Lock()
	s := r.store
	r.store, r.remote = nil, nil
	r.mu.Unlock()
	if s != nil {
		if err := s.Close(); err != nil {
			r.w.problem("close %s: %v", r.name, err)
		}
	}
	if err := client.Close(); err != nil {
		r.w.problem("close the database of %s: %v", r.name, err)
	}
}

// within checks the replica's memory against its budgets. A single response or revision may exceed one.
func (r *replica) within() {
	s := r.current()
	if s == nil {
		return
	}
	const one = 32 << 10
	if st := s.WatchStats(); st.WindowBytes > windowBytes+one || st.PendingBytes > watchBytes+one {
		r.w.problem("%s: watches hold %d bytes of recent and %d of pending events", r.name, st.WindowBytes,
			st.PendingBytes)
	}
}

func name(i int) string { return "r" + strconv.Itoa(i) }
