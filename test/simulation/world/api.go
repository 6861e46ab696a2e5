package world

import (
	"context"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// api is what clients use of a replica: its store (local), or the etcd API over it (remote). An answer is an operation
// with its outcome, revision and rows.
type api interface {
	txn(ctx context.Context, t *store.Txn, o *history.Op) error
	delete(ctx context.Context, key string, o *history.Op) error
	read(ctx context.Context, r *store.RangeRequest, o *history.Op) error
	grant(ctx context.Context, id, ttl int64) (int64, error)
	renew(ctx context.Context, id int64) error
	// watch starts a watch of a prefix. The stream ends with ctx.
	watch(ctx context.Context, prefix string, from int64, prev bool) (stream, error)
}

// stream is a watch stream with one watch.
type stream interface {
	next(ctx context.Context) (*response, error)
	requestProgress()
	close()
}

// response is the part of a watch response that the checks use.
type response struct {
	revision          int64
	events            []history.Event
	created, canceled bool
	asked             bool // it answers a progress request
}

// local is the store itself.
type local struct{ s *store.Store }

func (l local) txn(ctx context.Context, t *store.Txn, o *history.Op) error {
	r, err := l.s.Txn(ctx, t)
	if err != nil {
		return err
	}
	o.Outcome, o.Revision = history.Refused, r.Revision
	if r.Succeeded {
		o.Outcome = history.Done
	}
	return nil
}

func (l local) delete(ctx context.Context, key string, o *history.Op) error {
	r, err := l.s.Delete(ctx, &store.DeleteRequest{Key: []byte(key)})
	if err != nil {
		return err
	}
	o.Outcome, o.Revision = history.Done, r.Revision
	if r.Deleted == 0 {
		o.Outcome = history.Refused
	}
	return nil
}

func (l local) read(ctx context.Context, req *store.RangeRequest, o *history.Op) error {
	r, err := l.s.Range(ctx, req)
	if err != nil {
		return err
	}
	o.Outcome, o.Revision = history.Done, r.Revision
	for _, row := range r.Rows {
		o.Found = append(o.Found, history.KV{
			Key: string(row.Key), Value: trimmed(row.Value), Mod: row.ModRevision, Create: row.CreateRevision,
			Version: row.Version, Lease: row.Lease,
		})
	}
	return nil
}

func (l local) grant(ctx context.Context, id, ttl int64) (int64, error) {
	lease, err := l.s.LeaseGrant(ctx, id, ttl)
	if err != nil {
		return 0, err
	}
	return lease.ID, nil
}

func (l local) renew(ctx context.Context, id int64) error {
	_, err := l.s.LeaseRenew(ctx, id)
	return err
}

func (l local) watch(ctx context.Context, prefix string, from int64, prev bool) (stream, error) {
	st := l.s.NewWatchStream()
	if err := st.CatchUp(ctx); err != nil {
		st.Close()
		return nil, err
	}
	st.Watch(store.WatchRequest{
		Key: orNUL(prefix), End: store.PrefixEnd([]byte(prefix)), StartRevision: from, ProgressNotify: true,
		PrevKV: prev,
	})
	return localStream{st}, nil
}

type localStream struct{ st *store.WatchStream }

func (l localStream) next(ctx context.Context) (*response, error) {
	r, err := l.st.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := &response{revision: r.Revision, created: r.Created, canceled: r.Canceled, asked: r.ID == -1}
	for _, e := range r.Events {
		out.events = append(out.events, eventOf(e.Row))
	}
	return out, nil
}

func (l localStream) requestProgress() { l.st.RequestProgress() }
func (l localStream) close()           { l.st.Close() }
