package putback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Result is what was written.
type Result struct {
	Put, Deleted int
	// Revision is that of the last write, 0 if there was none.
	Revision int64
	// Changed are the keys that somebody else has written since the comparison. They stay as they are.
	Changed []Changed
	// TooLarge are keys whose values the server does not accept any more.
	TooLarge []string
}

// Changed is a key that has another revision than it had, 0 if it was deleted.
type Changed struct {
	Key      string
	Revision int64
}

// changedError is returned if a key does not have the revision that it had.
type changedError int64

func (e changedError) Error() string { return fmt.Sprintf("the key has revision %d", int64(e)) }

// Write writes all that is planned, and calls done with the number of keys that are finished. A write takes at most
// timeout. If ctx ends, no more keys are written and the error is that of ctx. Errors: the first of a key; what was
// written until then is in the result.
func (p *Plan) Write(
	ctx context.Context, client *clientv3.Client, timeout time.Duration, done func(int),
) (Result, error) {
	order := make([]*write, len(p.all))
	for i := range p.all {
		order[i] = &p.all[i]
	}
	slices.SortStableFunc(order, func(a, b *write) int { return cmp.Compare(a.rank, b.rank) })
	w := &writer{plan: p, client: client, timeout: timeout, done: done}
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].rank == order[0].rank {
			n++
		}
		if err := w.all(ctx, order[:n]); err != nil {
			return w.result, err
		}
		order = order[n:]
	}
	return w.result, nil
}

// writer writes keys.
type writer struct {
	plan    *Plan
	client  *clientv3.Client
	timeout time.Duration
	done    func(int)

	mu     sync.Mutex
	count  int
	result Result
}

// all writes keys in any order.
func (w *writer) all(ctx context.Context, keys []*write) error {
	group, going := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, k := range keys {
		group.Go(func() error {
			if going.Err() != nil {
				return ctx.Err() // of the caller; otherwise another key has the error
			}
			// A write that has begun ends, so that its outcome is known.
			revision, err := w.write(context.WithoutCancel(ctx), k)
			return w.record(k, revision, err)
		})
	}
	return group.Wait()
}

// record notes the outcome of a write, and returns the error that ends the others.
func (w *writer) record(k *write, revision int64, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, is := errors.AsType[changedError](err)
	switch {
	case is:
		w.result.Changed = append(w.result.Changed, Changed{Key: k.key, Revision: int64(changed)})
	case tooLarge(err):
		w.result.TooLarge = append(w.result.TooLarge, k.key)
	case err != nil:
		return fmt.Errorf("write %q: %w", k.key, err)
	case k.deletes:
		w.result.Deleted++
	default:
		w.result.Put++
	}
	w.result.Revision = max(w.result.Revision, revision)
	w.count++
	w.done(w.count)
	return nil
}

// write writes one key, if it still has its revision, and returns the revision of the write. A lease may end at any
// time.
func (w *writer) write(ctx context.Context, k *write) (int64, error) {
	if k.deletes {
		return w.commit(ctx, k, clientv3.OpDelete(k.key))
	}
	value, err := w.plan.value(k)
	if err != nil {
		return 0, err
	}
	var revision int64
	for _, lease := range []int64{k.lease, k.fallback, 0} {
		revision, err = w.commit(ctx, k, clientv3.OpPut(k.key, value, clientv3.WithLease(clientv3.LeaseID(lease))))
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			break
		}
	}
	return revision, err
}

func (w *writer) commit(ctx context.Context, k *write, op clientv3.Op) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	resp, err := w.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(k.key), "=", k.revision)).
		Then(op).
		Else(clientv3.OpGet(k.key, clientv3.WithKeysOnly())).
		Commit()
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	}
	var now int64
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		now = kv.ModRevision
	}
	return 0, changedError(now)
}

// tooLarge reports whether a server refuses a request, or the message with it, for its size.
func tooLarge(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) || status.Code(err) == codes.ResourceExhausted &&
		strings.Contains(err.Error(), "message larger than max")
}
