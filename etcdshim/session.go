package etcdshim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// sessionTTL is the TTL, in seconds, of the lease for a lock or a candidacy that brings none.
	sessionTTL = 60
	// cleanupTimeout limits giving up a lock or a candidacy after its caller has disconnected.
	cleanupTimeout = 5 * time.Second
)

// queues makes the queues of locks and elections.
type queues struct {
	engine   *store.Store
	maxBytes int
	stopping context.Context
}

// queue is the queue for a lock or a leadership: the keys under a prefix, each with its holder's lease, in the order of
// their creation. The first one holds it.
type queue struct {
	queues
	prefix []byte
	end    []byte
}

// named returns the queue for a name; its keys are name/lease, as etcd's clients make them.
func (s queues) named(name []byte) queue {
	prefix := append(append([]byte{}, name...), '/')
	end := append([]byte{}, prefix...)
	end[len(end)-1]++ // '/' is not the greatest byte
	return queue{queues: s, prefix: prefix, end: end}
}

func (q queue) key(lease int64) []byte {
	// etcd's clients print a lease's id with its sign.
	return fmt.Appendf(append([]byte{}, q.prefix...), "%x", lease)
}

// clientError converts err as etcd's lock and election services do: they are clients of the server around them, and
// keep only the text of errors that etcd's clients know. But a stop is Unavailable, which makes clients try elsewhere.
func clientError(ctx context.Context, err error) error {
	err = statusError(ctx, err)
	if errors.Is(err, rpctypes.ErrGRPCStopped) {
		return err
	}
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) {
		return status.Error(codes.Unknown, known.Error())
	}
	return err
}

// session returns the lease to use: the caller's, or a new one.
func (s queues) session(ctx context.Context, lease int64) (int64, error) {
	if lease != 0 {
		return lease, nil
	}
	l, err := s.engine.LeaseGrant(ctx, 0, sessionTTL)
	if err != nil {
		return 0, err
	}
	return l.ID, nil
}

func created(key []byte, revision int64) []store.Compare {
	return []store.Compare{{Key: key, Target: store.CompareCreate, Number: revision}}
}

// enqueue enters the queue, or finds the place that the lease already has in it. It returns the revision of that place,
// and the row if it existed before.
func (q queue) enqueue(
	ctx context.Context, key, value []byte, lease int64,
) (place int64, was *store.Row, revision int64, err error) {
	res, err := q.engine.Txn(ctx, &store.Txn{
		Compare: created(key, 0),
		Success: []store.Op{{Put: &store.PutRequest{Key: key, Value: value, Lease: lease}}},
		Failure: []store.Op{{Range: &store.RangeRequest{Key: key}}},
	})
	switch {
	case err != nil:
		return 0, nil, 0, err
	case res.Succeeded:
		return res.Revision, nil, res.Revision, nil
	}
	was = res.Results[0].Range.Rows[0]
	return was.CreateRevision, was, res.Revision, nil
}

// dequeue gives up a place if it is still the caller's. It works after the caller's ctx has ended, too.
func (q queue) dequeue(ctx context.Context, key []byte, place int64) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	res, err := q.engine.Txn(ctx, &store.Txn{
		Compare: created(key, place),
		Success: []store.Op{{Delete: &store.DeleteRequest{Key: key}}},
	})
	if err != nil {
		return 0, err
	}
	return res.Revision, nil
}

// first returns the row at the head of the queue, or nil if nobody waits.
func (q queue) first(ctx context.Context) (*store.Row, int64, error) {
	res, err := q.engine.Range(ctx, &store.RangeRequest{
		Key: q.prefix, End: q.end, Limit: 1, Order: store.SortAscend, Target: store.SortCreate,
	})
	if err != nil {
		return nil, 0, err
	}
	if len(res.Rows) == 0 {
		return nil, res.Revision, nil
	}
	return res.Rows[0], res.Revision, nil
}

// wait returns when everybody before place is gone.
func (q queue) wait(ctx context.Context, place int64) error {
	for {
		res, err := q.engine.Range(ctx, &store.RangeRequest{
			Key: q.prefix, End: q.end, Limit: 1, Order: store.SortDescend, Target: store.SortCreate,
			MaxCreateRev: place - 1,
		})
		if err != nil {
			return err
		}
		if len(res.Rows) == 0 {
			return nil
		}
		gone := func(e store.Event) bool { return e.Row.Deleted }
		if _, err := q.follow(ctx, store.WatchRequest{Key: res.Rows[0].Key, StartRevision: res.Revision},
			gone); err != nil {
			return err
		}
	}
}

// follow watches until found returns true, and returns that event.
func (q queue) follow(
	ctx context.Context, req store.WatchRequest, found func(store.Event) bool,
) (store.Event, error) {
	ctx, cancel := untilStop(ctx, q.stopping)
	defer cancel(nil)
	w := q.engine.NewWatchStream()
	defer w.Close()
	req.As = auth.From(ctx)
	w.Watch(req)
	for {
		r, err := w.Next(ctx)
		if err != nil {
			return store.Event{}, statusError(ctx, err)
		}
		if r.Canceled {
			if r.CompactRevision != 0 {
				return store.Event{}, store.ErrCompacted
			}
			if r.Err != nil {
				return store.Event{}, fmt.Errorf("watch: %w", r.Err)
			}
			return store.Event{}, errors.New("watch refused")
		}
		for _, e := range r.Events {
			if found(e) {
				return e, nil
			}
		}
	}
}

func keyValue(r *store.Row) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: r.Key, Value: r.Value, CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
		Lease: r.Lease,
	}
}
