package etcdshim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/bodies"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// gatewayFactor is how many times longer than a message its JSON may be: base64 adds a third, and the rest is
	// for names.
	gatewayFactor = 4
	// bodyTimeout is how long the body of a call may take to arrive.
	bodyTimeout = time.Minute
)

// gateway is the JSON API on top of a gRPC server in the same process. As in etcd, its streams are also available over
// websockets.
type gateway struct {
	mux    *runtime.ServeMux
	codec  *jsonCodec
	bodies *bodies.Budget
	limit  int64 // of a body, or of a document in a streaming one
	charge func(ctx context.Context, bytes int64) *store.Account
	awaits *answers
	works  *serving
	log    *slog.Logger
}

// newGateway serves the API of server. The caller must close the returned connection.
func newGateway(
	ctx context.Context, server *grpc.Server, s *store.Store, awaits *answers, works *serving, o *Options,
) (http.Handler, *grpc.ClientConn, error) {
	listener := newPipes()
	conn, err := grpc.NewClient("passthrough:///in-process",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.dial(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("gateway: %w", err)
	}
	g := &gateway{codec: newJSONCodec(), charge: s.Charge, awaits: awaits, works: works, log: o.Logger}
	g.limit = gatewayFactor * int64(o.MaxRequestBytes+messageOverhead)
	g.bodies = bodies.NewBudget(g.limit, bodyTimeout)
	g.mux = runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, g.codec),
		runtime.WithForwardResponseOption(g.chargeAnswer),
		runtime.WithMetadata(gatewayMetadata), runtime.WithErrorHandler(handleError),
		runtime.WithStreamErrorHandler(func(ctx context.Context, err error) *status.Status {
			err = gatewayError(ctx, err)
			if e, ok := errors.AsType[*runtime.HTTPStatusError](err); ok {
				err = e.Err // a streaming answer has already sent its status
			}
			return status.Convert(err)
		}))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		etcdgw.RegisterKVHandler, etcdgw.RegisterWatchHandler, etcdgw.RegisterLeaseHandler,
		etcdgw.RegisterClusterHandler, etcdgw.RegisterMaintenanceHandler, etcdgw.RegisterAuthHandler,
		lockgw.RegisterLockHandler, electiongw.RegisterElectionHandler,
	} {
		if err := register(ctx, g.mux, conn); err != nil {
			_ = conn.Close() // the first error is the one to report
			return nil, nil, fmt.Errorf("gateway: %w", err)
		}
	}
	go server.Serve(listener) //nolint:errcheck // ends with the server
	return g, conn, nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if websocket.IsWebSocketUpgrade(r) {
		g.socket(w, r)
		return
	}
	ctl := http.NewResponseController(w)
	g.serve(w, r, func(timeout time.Duration) { _ = ctl.SetReadDeadline(time.Now().Add(timeout)) })
}

// unreadTimeout is how long the rest of a refused body is read: a client that is reset while it sends may miss the
// answer.
const unreadTimeout = time.Second

// serve serves a request. abort must end the reading of its body after that time, including a running read.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request, abort func(time.Duration)) {
	if r.URL.Path == "/v3/watch" || r.URL.Path == "/v3/lease/keepalive" {
		g.serveStream(w, r, abort)
		return
	}
	// The whole body is read first: until then net/http does not notice a disconnect.
	from := http.MaxBytesReader(w, r.Body, g.limit) // lets net/http know how to close
	body, err := g.bodies.Read(r.Context(), from, r.ContentLength, g.limit, func() { abort(0) })
	if err != nil {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		abort(unreadTimeout) // otherwise net/http would wait for the rest
		runtime.HTTPError(r.Context(), g.mux, g.codec, w, r, g.bodyError(err, r.ContentLength))
		return
	}
	defer body.Release()
	g.works.calls.Add(1)
	defer g.works.calls.Add(-1)
	t := &answerWriter{ResponseWriter: &toClient{w, g.works}}
	r, end := g.awaits.begin(t, ofClient(r))
	defer end()
	r.Body = newWhole(body)
	g.mux.ServeHTTP(t, r)
}

// serveStream serves a call with a stream of requests.
func (g *gateway) serveStream(w http.ResponseWriter, r *http.Request, abort func(time.Duration)) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if r.ProtoMajor == 1 {
		// Otherwise net/http waits for the end of the body before it sends an answer. A websocket's ResponseWriter does
		// not need this.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	r = r.WithContext(ctx)
	r.Body = &documents{ReadCloser: r.Body, of: g, ctx: ctx, end: func(err error) {
		cancel(g.bodyError(err, -1))
		if errors.Is(err, bodies.ErrSlow) {
			abort(0) // no body arrives
		} else {
			abort(unreadTimeout)
		}
	}}
	g.mux.ServeHTTP(w, r)
}

// bodyError converts an error of reading a body, to etcd's if there is one. length is the declared length of the body,
// if any.
func (g *gateway) bodyError(err error, length int64) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)",
			max(length, g.limit+1), g.limit)
	}
	switch {
	case errors.Is(err, bodies.ErrFull):
		return rpctypes.ErrGRPCRequestTooManyRequests
	case errors.Is(err, bodies.ErrSlow):
		return &runtime.HTTPStatusError{
			HTTPStatus: http.StatusRequestTimeout,
			Err:        status.Error(codes.DeadlineExceeded, bodies.ErrSlow.Error()),
		}
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

func handleError(
	ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error,
) {
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, gatewayError(ctx, err))
}

// gatewayError returns why the gateway ended a call, if it did, and reports a deadline as etcd's gateway does. Either
// side may notice the deadline first, and grpc's text differs if the server does.
func gatewayError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); ctx.Err() != nil && !errors.Is(cause, ctx.Err()) {
		return cause
	}
	if status.Code(err) == codes.DeadlineExceeded {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	return err
}
