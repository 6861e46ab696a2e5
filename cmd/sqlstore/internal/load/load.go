// Package load measures how fast an etcd endpoint answers the requests that Kubernetes makes. All its keys are below a
// prefix of their own.
package load

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Phases are what can be measured, in the order in which it is. create comes first, because the others need its keys.
var Phases = []string{"create", "get", "list", "update", "delete"}

// page is the number of keys in an answer to a list, as a kube-apiserver asks for them.
const page = 500

// errConflict is returned if the condition of a write does not hold: another program writes to the keys.
var errConflict = errors.New("another program has changed the key")

// Config says what to measure.
type Config struct {
	// Clients are the connections. Callers share them, and each makes one request at a time.
	Clients []*clientv3.Client
	Callers int
	// Prefix begins the keys. It ends with '/', and nothing else uses it.
	Prefix string
	// Keys is the number of keys, and Size the length of a value in bytes.
	Keys, Size int
	// Duration limits each phase, and Timeout the requests that are not answered at its end. The phases that write each
	// key once may end earlier.
	Duration, Timeout time.Duration
	Phases            []string
}

// Result is what a phase has measured. Durations are in nanoseconds in JSON.
type Result struct {
	Phase     string        `json:"phase"`
	Requests  int           `json:"requests"`
	PerSecond float64       `json:"perSecond"`
	P50       time.Duration `json:"p50Nanoseconds"`
	P90       time.Duration `json:"p90Nanoseconds"`
	P99       time.Duration `json:"p99Nanoseconds"`
	Max       time.Duration `json:"maxNanoseconds"`
	Failed    int           `json:"failed"`
	// Error is the first failure, "" if there is none.
	Error string `json:"error,omitempty"`
}

// load is a run of phases.
type load struct {
	Config
	revisions []atomic.Int64 // of the keys, 0 for those that do not exist; each is used by one caller at a time
	value     []byte         // random, so that nothing compresses it
	updated   atomic.Int64   // the revision of the last update
}

// Run measures the phases, and passes each result to report as soon as it is known. Between create and delete it also
// measures "watch": the time from the start of an update until a watch receives it. Errors: ctx's.
func Run(ctx context.Context, cfg Config, report func(Result)) error {
	l := &load{Config: cfg, revisions: make([]atomic.Int64, cfg.Keys), value: make([]byte, max(cfg.Size, stampSize))}
	_, _ = rand.Read(l.value)
	requests := map[string]func(ctx context.Context, c *clientv3.Client, key int) error{
		"create": l.create, "get": l.get, "list": l.list, "update": l.update, "delete": l.delete,
	}
	for _, phase := range Phases {
		if !slices.Contains(cfg.Phases, phase) {
			continue
		}
		once := phase == "create" || phase == "delete"
		var w *watcher
		if phase == "update" {
			w = l.watch(ctx)
		}
		report(l.run(ctx, phase, once, requests[phase]))
		if w != nil {
			report(w.result(ctx))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// run makes requests with all callers until the duration is over or, once, each key has had its request. Each caller
// has keys of its own, so that writes do not conflict.
func (l *load) run(
	ctx context.Context, phase string, once bool, request func(context.Context, *clientv3.Client, int) error,
) Result {
	all := make([]samples, l.Callers)
	began := time.Now()
	end := began.Add(l.Duration)
	limited, cancel := context.WithDeadline(ctx, end.Add(l.Timeout))
	defer cancel()
	var callers sync.WaitGroup
	for i := range l.Callers {
		keys := l.keysOf(i, phase)
		callers.Go(func() {
			c := l.Clients[i%len(l.Clients)]
			for n := 0; len(keys) > 0 && ctx.Err() == nil; n++ {
				if n == len(keys) && once {
					return
				}
				start := time.Now()
				if !start.Before(end) {
					return
				}
				err := request(limited, c, keys[n%len(keys)])
				if ctx.Err() == nil {
					all[i].add(time.Since(start), err)
				}
			}
		})
	}
	callers.Wait()
	return summarize(phase, all, time.Since(began))
}

// keysOf returns the keys that a caller uses: those to create, or those that it has created.
func (l *load) keysOf(caller int, phase string) (keys []int) {
	for key := caller; key < l.Keys; key += l.Callers {
		if phase == "create" || l.revisions[key].Load() != 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func (l *load) key(i int) string { return fmt.Sprintf("%s%08d", l.Prefix, i) }

// create puts a key that does not exist, as Kubernetes creates objects.
func (l *load) create(ctx context.Context, c *clientv3.Client, i int) error {
	_, err := l.write(ctx, c, i, clientv3.OpPut(l.key(i), string(l.stamped())))
	return err
}

// update replaces a key if it is as this caller knows it.
func (l *load) update(ctx context.Context, c *clientv3.Client, i int) error {
	revision, err := l.write(ctx, c, i, clientv3.OpPut(l.key(i), string(l.stamped())))
	for last := l.updated.Load(); revision > last && !l.updated.CompareAndSwap(last, revision); {
		last = l.updated.Load()
	}
	return err
}

func (l *load) delete(ctx context.Context, c *clientv3.Client, i int) error {
	_, err := l.write(ctx, c, i, clientv3.OpDelete(l.key(i)))
	if err == nil {
		l.revisions[i].Store(0)
	}
	return err
}

// write changes a key if its revision is the one that this caller knows, and returns the new one.
func (l *load) write(ctx context.Context, c *clientv3.Client, i int, op clientv3.Op) (revision int64, err error) {
	key := l.key(i)
	r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", l.revisions[i].Load())).Then(op).
		Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return 0, err
	}
	if r.Succeeded {
		l.revisions[i].Store(r.Header.Revision)
		return r.Header.Revision, nil
	}
	// A write of this caller whose outcome was unknown has happened, or another program writes here.
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		l.revisions[i].Store(kvs[0].ModRevision)
	}
	return 0, errConflict
}

func (l *load) get(ctx context.Context, c *clientv3.Client, i int) error {
	r, err := c.Get(ctx, l.key(i))
	if err == nil && len(r.Kvs) != 1 {
		return errConflict
	}
	return err
}

// list reads a page of keys and values, from a key on.
func (l *load) list(ctx context.Context, c *clientv3.Client, i int) error {
	_, err := c.Get(ctx, l.key(i), clientv3.WithRange(clientv3.GetPrefixRangeEnd(l.Prefix)), clientv3.WithLimit(page))
	return err
}

// stampSize is the length of the time with which each value begins.
const stampSize = 8

// stamped returns a value that begins with the time.
func (l *load) stamped() []byte {
	value := slices.Clone(l.value)
	binary.BigEndian.PutUint64(value, uint64(time.Now().UnixNano()))
	return value
}
