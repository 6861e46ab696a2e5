package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/status"
)

const (
	// startGrace is how long a call waits for the end of the start. A start that takes longer waits itself, or reads a
	// large database.
	startGrace = 2 * time.Second
	// objectsIdle is how long a list/watch connection may wait for its next request.
	objectsIdle = 3 * time.Minute
	// objectsGuard limits how long it takes to send an answer that comes from the guard and not from the API.
	objectsGuard = time.Minute
	// objectsPing is how long an HTTP/2 client may be silent before the server pings it. Watches may be silent forever.
	objectsPing = 30 * time.Second
)

// stage serves HTTP with one handler while the server starts, and with another one afterwards.
type stage struct{ handler atomic.Pointer[http.Handler] }

func (x *stage) set(h http.Handler) { x.handler.Store(&h) }

func (x *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*x.handler.Load()).ServeHTTP(w, r)
}

// serveHTTP starts to serve what is available before the database is open. It refuses everything else at once, except
// gRPC calls, which may wait for the end of the start.
func (s *Server) serveHTTP(clients, httpClients, metrics []*listen.Split, cfg *Config) {
	starting := s.metrics.StartingHandler(EtcdVersion, reporter{s})
	s.front[0].set(grpcOr(http.HandlerFunc(s.holdCall), s.guardClients(cfg, starting)))
	s.front[1].set(s.guardMetrics(cfg, starting))
	s.front[2].set(s.guardClients(cfg, starting))
	client, ops, httpOnly := s.newHTTP(&s.front[0]), s.newHTTP(&s.front[1]), s.newHTTP(&s.front[2])
	s.early = s.newHTTP(&s.front[0])
	client.Protocols, s.early.Protocols = allProtocols(), allProtocols()
	client.HTTP2, httpOnly.HTTP2, s.early.HTTP2 = cfg.http2(), cfg.http2(), cfg.http2()
	s.http, s.ops = []*http.Server{client, httpOnly, s.early}, ops
	for _, l := range clients {
		s.wg.Go(func() { s.ended("http", client.Serve(l.HTTP)) })
		s.wg.Go(func() { s.ended("grpc", s.early.Serve(l.Lend())) })
	}
	for _, l := range httpClients {
		s.log.Info("serving HTTP clients", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("http", httpOnly.Serve(l.HTTP)) })
	}
	for _, l := range metrics {
		s.log.Info("serving metrics", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("metrics", ops.Serve(l.HTTP)) })
	}
}

// holdCall lets a gRPC call wait for the start, as etcd's clients wait until it listens. It refuses the call when the
// start waits for the database, and streams, which would stay at the HTTP server: their clients open them again.
func (s *Server) holdCall(w http.ResponseWriter, r *http.Request) {
	grace := time.NewTimer(startGrace)
	defer grace.Stop()
	select {
	case <-s.started:
		if !s.streams(r.URL.Path) {
			s.shim.HTTP.ServeHTTP(w, r)
			return
		}
	case <-s.state.waits:
	case <-grace.C:
	case <-r.Context().Done():
	}
	s.refuseCall(w)
}

// streams reports whether a method sends a stream of answers.
func (s *Server) streams(path string) bool {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.ContainsFunc(s.shim.GRPC.GetServiceInfo()[service].Methods, func(m grpc.MethodInfo) bool {
		return m.Name == method && m.IsServerStream
	})
}

func (s *Server) refuseCall(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(codes.Unavailable)))
	h.Set("Grpc-Message", url.PathEscape("etcdserver: "+s.notReady()))
	w.WriteHeader(http.StatusOK)
}

// notReady returns why the server does not serve clients yet.
func (s *Server) notReady() string {
	return status.Find(s.monitor.List(), status.Ready).Message
}

func (s *Server) serve(clients []*listen.Split, cfg *Config) {
	ops := s.metrics.Handler(s.store, EtcdVersion, reporter{s})
	all := http.NewServeMux()
	all.Handle("/", ops)
	if cfg.Profiling { // as in etcd, not on the metrics URLs
		var stopping context.Context
		stopping, s.stopProfiles = context.WithCancel(context.Background())
		all.HandleFunc("/debug/pprof/", until(stopping, pprof.Index))
		all.HandleFunc("/debug/pprof/cmdline", program)
		all.HandleFunc("/debug/pprof/profile", until(stopping, pprof.Profile))
		all.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		all.HandleFunc("/debug/pprof/trace", until(stopping, pprof.Trace))
	}
	if !cfg.NoGateway {
		all.Handle("/v3/", s.shim.Gateway)
	}
	s.front[0].set(grpcOr(s.shim.HTTP, s.guardClients(cfg, orBeta(all))))
	s.front[1].set(s.guardMetrics(cfg, ops))
	s.front[2].set(s.guardClients(cfg, orBeta(all)))
	for _, l := range clients {
		s.log.Info("serving clients", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("grpc", s.shim.GRPC.Serve(l.GRPC)) })
	}
	close(s.started)
	s.wg.Go(func() { _ = s.early.Shutdown(context.Background()) }) // its clients connect again; Close may cut them off
	if len(cfg.ListenObjectsURLs) > 0 {
		s.front[3].set(s.guardObjects(cfg, s.objects))
	}
	if len(cfg.ListenConsoleURLs) > 0 {
		s.openConsole(cfg, ops)
	}
}

// until ends requests with ctx, as if their clients had disconnected: profiles and traces are then complete, but
// shorter.
func until(ctx context.Context, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(ctx, cancel)()
		defer cancel()
		h(w, r.WithContext(request))
	}
}

// program answers with the program's name as package pprof does, without the arguments: they may hold a password.
func program(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(os.Args[0])) // an error means that the client has disconnected
}

// orBeta passes the paths of the gateway's beta version on as today's, as etcd does.
func orBeta(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v3beta/"); ok {
			to := *r.URL
			to.Path, to.RawPath = "/v3/"+rest, ""
			r = r.WithContext(r.Context())
			r.URL = &to
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler: listen.WatchHangups(listen.HangupPeriod, listen.ShowTLS(h)), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: listen.WithLoopback, ConnContext: listen.WithConn,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// http2 configures HTTP/2 for clients that may speak gRPC, like the gRPC server does.
func (c *Config) http2() *http.HTTP2Config {
	h := &http.HTTP2Config{
		MaxConcurrentStreams: math.MaxInt32, SendPingTimeout: c.KeepaliveInterval,
		PingTimeout: c.KeepaliveTimeout,
	}
	if n := c.MaxConcurrentStreams; n > 0 {
		h.MaxConcurrentStreams = int(min(n, math.MaxInt32))
	}
	if h.SendPingTimeout <= 0 {
		h.SendPingTimeout = 2 * time.Hour
	}
	return h
}

// guardClients guards HTTP on the client listeners.
func (s *Server) guardClients(cfg *Config, next http.Handler) http.Handler {
	return listen.NewHosts(cfg.HostWhitelist, s.advertised, &listen.Origins{Allowed: cfg.CORS, Next: next})
}

// guardMetrics guards the metrics listeners. Operators list hosts with clients in mind, so scrapers under other names
// are still served.
func (s *Server) guardMetrics(cfg *Config, next http.Handler) http.Handler {
	h := listen.NewHosts(cfg.HostWhitelist, s.advertised, next)
	h.Besides = true
	return h
}

// grpcOr passes calls to grpc and other requests to h. Few gRPC clients end up at an HTTP server: those that offer
// HTTP/1.1, and those that have connected during the start.
func grpcOr(grpc, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			grpc.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// allProtocols includes HTTP/2 without TLS, which net/http also sees where the split has read the first request.
func allProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func (s *Server) ended(what string, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) &&
		!errors.Is(err, grpc.ErrServerStopped) {
		s.log.Error("listener failed", "for", what, "error", err)
	}
}

// openObjects creates the list/watch API.
func (s *Server) openObjects(cfg *Config) {
	o := restapi.Options{
		MaxRequestBytes: cfg.MaxRequestBytes, WarningDuration: cfg.warning(), Version: Version, Logger: s.log,
		Authenticator: s.authn, ClientCertAuth: cfg.TLS.RequireClientCert, Audit: s.audit,
		Tracer: cfg.tracer(),
	}
	s.objects = restapi.New(s.store, s.backend, o)
	s.metrics.Registry.MustRegister(s.objects.Metrics())
}

// guardObjects guards the list/watch API. Where etcd lets every web page use its JSON API, so does the gateway. This
// API is new and makes no such promise.
func (s *Server) guardObjects(cfg *Config, next http.Handler) http.Handler {
	guard := listen.NewHosts(cfg.HostWhitelist, s.advertised,
		&listen.Origins{Allowed: cfg.CORS, Named: true, Next: next})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// for the guard's answers; the API sets its own deadline
		if c := http.NewResponseController(w); r.ProtoMajor == 1 {
			_ = c.SetWriteDeadline(time.Now().Add(objectsGuard))
			if r.ContentLength != 0 {
				_ = c.SetReadDeadline(time.Now().Add(objectsGuard))
			}
		}
		guard.ServeHTTP(w, r)
	})
}

// serveObjects starts to serve the list/watch API over HTTP, also to clients that offer only HTTP/2. It refuses all
// requests until the API is open.
func (s *Server) serveObjects(listeners []*listen.Split, cfg *Config) {
	s.front[3].set(s.guardObjects(cfg, restapi.Starting(s.notReady)))
	h := s.newHTTP(&s.front[3])
	h.IdleTimeout = objectsIdle
	h.HTTP2 = &http.HTTP2Config{SendPingTimeout: objectsPing}
	h.Protocols = allProtocols()
	s.http = append(s.http, h)
	for _, l := range listeners {
		s.log.Info("serving the list/watch API", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("objects", h.Serve(l.HTTP)) })
		s.wg.Go(func() { s.ended("objects", h.Serve(l.GRPC)) })
	}
}
