package world

import (
	"context"
	"errors"
	"net"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// remote is the etcd API of a replica, over gRPC and connections in memory.
type remote struct {
	shim   *etcdshim.Server
	conn   *grpc.ClientConn
	kv     etcdserverpb.KVClient
	leases etcdserverpb.LeaseClient
	pipes  pipes
}

// pipes is a listener for connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Accept implements [net.Listener].
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

// Addr implements [net.Listener].
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (p pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- a:
		return b, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newRemote serves the etcd API over s.
func newRemote(ctx context.Context, name string, s *store.Store) (*remote, error) {
	r := &remote{pipes: pipes{make(chan net.Conn), make(chan struct{})}}
	var err error
	r.shim, err = etcdshim.NewServer(ctx, s,
		etcdshim.Options{Name: name, ClientURLs: []string{"http://" + name}, NoWorkers: true})
	if err != nil {
		return nil, err
	}
	r.conn, err = grpc.NewClient("passthrough:///memory", grpc.WithContextDialer(r.pipes.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.shim.Close()
		return nil, err
	}
	r.kv, r.leases = etcdserverpb.NewKVClient(r.conn), etcdserverpb.NewLeaseClient(r.conn)
	return r, nil
}

// serve accepts connections until close.
func (r *remote) serve() { _ = r.shim.GRPC.Serve(r.pipes) }

// close stops the server as package sqlstore does.
func (r *remote) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.shim.Shutdown(ctx)
	r.shim.Close()
	_ = r.conn.Close()
	_ = r.pipes.Close()
}

// answer turns an error of the etcd API into that of the store, where it matters.
func answer(err error) error {
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) {
		return store.ErrLeaseNotFound
	}
	return err
}

func (r *remote) txn(ctx context.Context, t *store.Txn, o *history.Op) error {
	req := &etcdserverpb.TxnRequest{}
	for _, c := range t.Compare {
		req.Compare = append(req.Compare, &etcdserverpb.Compare{
			Key: c.Key, Target: etcdserverpb.Compare_MOD, Result: etcdserverpb.Compare_EQUAL,
			TargetUnion: &etcdserverpb.Compare_ModRevision{ModRevision: c.Number},
		})
	}
	for _, op := range t.Success {
		req.Success = append(req.Success, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{
			RequestPut: &etcdserverpb.PutRequest{Key: op.Put.Key, Value: op.Put.Value, Lease: op.Put.Lease},
		}})
	}
	resp, err := r.kv.Txn(ctx, req)
	if err != nil {
		return answer(err)
	}
	o.Outcome, o.Revision = history.Refused, resp.Header.Revision
	if resp.Succeeded {
		o.Outcome = history.Done
	}
	return nil
}

func (r *remote) delete(ctx context.Context, key string, o *history.Op) error {
	resp, err := r.kv.DeleteRange(ctx, &etcdserverpb.DeleteRangeRequest{Key: []byte(key)})
	if err != nil {
		return answer(err)
	}
	o.Outcome, o.Revision = history.Done, resp.Header.Revision
	if resp.Deleted == 0 {
		o.Outcome = history.Refused
	}
	return nil
}

func (r *remote) read(ctx context.Context, req *store.RangeRequest, o *history.Op) error {
	resp, err := r.kv.Range(ctx, &etcdserverpb.RangeRequest{Key: req.Key, RangeEnd: req.End, Limit: req.Limit})
	if err != nil {
		return answer(err)
	}
	o.Outcome, o.Revision = history.Done, resp.Header.Revision
	for _, kv := range resp.Kvs {
		o.Found = append(o.Found, history.KV{
			Key: string(kv.Key), Value: trimmed(kv.Value), Mod: kv.ModRevision, Create: kv.CreateRevision,
			Version: kv.Version, Lease: kv.Lease,
		})
	}
	return nil
}

func (r *remote) grant(ctx context.Context, id, ttl int64) (int64, error) {
	resp, err := r.leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil {
		return 0, answer(err)
	}
	return resp.ID, nil
}

func (r *remote) renew(ctx context.Context, id int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := r.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id}); err != nil {
		return err
	}
	resp, err := s.Recv()
	if err == nil && resp.TTL <= 0 {
		err = store.ErrLeaseNotFound
	}
	return err
}

func (r *remote) watch(ctx context.Context, prefix string, from int64, prev bool) (stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := etcdserverpb.NewWatchClient(r.conn).Watch(ctx)
	if err == nil {
		err = w.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{
				Key: orNUL(prefix), RangeEnd: store.PrefixEnd([]byte(prefix)), StartRevision: from,
				ProgressNotify: true, PrevKv: prev,
			},
		}})
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &remoteStream{w, cancel}, nil
}

// orNUL returns the first key of a prefix.
func orNUL(prefix string) []byte {
	if prefix == "" {
		return []byte{0}
	}
	return []byte(prefix)
}

type remoteStream struct {
	w      etcdserverpb.Watch_WatchClient
	cancel context.CancelFunc
}

func (s *remoteStream) next(context.Context) (*response, error) {
	r, err := s.w.Recv()
	if err != nil {
		return nil, err
	}
	out := &response{revision: r.Header.Revision, created: r.Created, canceled: r.Canceled, asked: r.WatchId == -1}
	for _, e := range r.Events {
		event := history.Event{
			Key: string(e.Kv.Key), Value: trimmed(e.Kv.Value), Deleted: e.Type == mvccpb.DELETE,
			Revision: e.Kv.ModRevision, Create: e.Kv.CreateRevision, Version: e.Kv.Version, Lease: e.Kv.Lease,
		}
		out.events = append(out.events, event)
	}
	return out, nil
}

func (s *remoteStream) requestProgress() {
	_ = s.w.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
		ProgressRequest: &etcdserverpb.WatchProgressRequest{},
	}})
}

func (s *remoteStream) close() { s.cancel() }
