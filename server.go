package sqlstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// EtcdVersion is the version of etcd whose API the server implements.
const EtcdVersion = "3.7.3"

// defaultWarning is etcd's.
const defaultWarning = 300 * time.Millisecond

// warning is the duration of a slow request, 0 to log none.
func (c *Config) warning() time.Duration {
	return max(0, cmp.Or(c.WarningUnaryRequestDuration, defaultWarning))
}

// Version is the version of sqlstore. Releases set it at link time.
var Version = "0.1.0-dev"

// Server is a running server.
type Server struct {
	log     *slog.Logger
	backend backend.Backend
	store   *store.Store
	shim    *etcdshim.Server
	objects *restapi.Server // nil if it is off
	metrics *telemetry.Metrics
	http    []*http.Server // for clients
	ops     *http.Server   // for the metrics listeners
	front   [2]stage       // for the client and the metrics listeners
	certs   *listen.Certificates
	monitor *conditions.Monitor
	state   state
	quota   func(configured int64) int64

	listeners  []*listen.Split
	clients    []string // URLs of the client listeners
	advertised []string // URLs given to clients
	objectURLs []string // URLs of the list/watch API
	compacting compacting
	wg         sync.WaitGroup
	closing    sync.Once
	closeErr   error
}

// Start opens the database, migrates it if needed, and serves. ctx limits only the start. Errors: [ErrConfig],
// [ErrPlaintext], [compactor.ErrConfig], those of listening and of opening the database (package backend: in use,
// schema newer, no permission).
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{log: cfg.logger(), quota: cfg.quota}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.TLS.wanted() {
		files := listen.Files(cfg.TLS)
		if err := files.Check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if s.certs, err = listen.NewCertificates(files, s.log); err != nil {
			return nil, err
		}
	}
	s.monitorConditions(&cfg)
	if err := listen.CheckOrigins(cfg.CORS); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := listen.CheckAdvertised(cfg.AdvertiseClientURLs); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	clientURLs := cfg.ListenClientURLs
	if len(clientURLs) == 0 {
		clientURLs = []string{"http://127.0.0.1:0"}
	}
	clients, urls, err := s.open(ctx, clientURLs, &cfg)
	if err != nil {
		return nil, err
	}
	s.clients = urls
	if s.certs != nil && !slices.ContainsFunc(urls, secure) {
		s.log.Warn("TLS files are given, but no client URL uses them: serve clients on https", "listeners", urls)
	}
	s.advertise(&cfg)
	metrics, _, err := s.open(ctx, cfg.ListenMetricsURLs, &cfg)
	if err != nil {
		return nil, err
	}
	objects, urls, err := s.open(ctx, cfg.ListenObjectsURLs, &cfg)
	if err != nil {
		return nil, err
	}
	s.objectURLs = urls
	s.metrics = telemetry.New(telemetry.Config{
		Version: EtcdVersion, SQLStore: Version,
		Extensive: cfg.ExtensiveMetrics,
	})
	s.metrics.WatchConditions(reporter{s})
	if s.certs != nil {
		s.metrics.WatchCertificates(s.certificateEnds)
	}
	s.serveHTTP(clients, metrics, &cfg)
	if err := s.openStore(ctx, &cfg); err != nil {
		return nil, err
	}
	if err := s.compact(cfg.Compaction); err != nil {
		return nil, err
	}
	if err := s.openShim(ctx, &cfg); err != nil {
		return nil, err
	}
	if len(objects) > 0 {
		s.openObjects(&cfg)
	}
	s.serve(clients, &cfg)
	s.serveObjects(objects, &cfg)
	s.enter(conditions.Serving)
	return s, nil
}

// advertise chooses the URLs given to clients.
func (s *Server) advertise(cfg *Config) {
	if s.advertised = cfg.AdvertiseClientURLs; len(s.advertised) > 0 {
		return
	}
	s.advertised = s.clients
	for _, u := range s.clients {
		if cfg.OnPostgres() && unspecified(u) {
			s.log.Warn("this replica advertises an address that other machines cannot reach: set "+
				setting.Name("AdvertiseClientURLs"), "url", u)
		}
	}
}

// certificateEnds returns when the certificates in use expire, by file.
func (s *Server) certificateEnds() map[string]time.Time {
	ends := map[string]time.Time{}
	for _, v := range s.certs.State().Served {
		ends[v.File] = v.NotAfter
	}
	return ends
}

// secure reports whether a listener's URL uses TLS.
func secure(u string) bool { return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unixs:") }

// unspecified reports whether a URL's host is an unspecified address, such as 0.0.0.0.
func unspecified(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsUnspecified()
}

// open listens on urls and splits connections between gRPC and HTTP.
func (s *Server) open(
	ctx context.Context, raw []string, cfg *Config,
) (opened []*listen.Split, bound []string, err error) {
	urls, err := listen.ParseURLs(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if !cfg.InsecurePlaintext {
		if err := listen.CheckPlaintext(urls); err != nil {
			return nil, nil, err
		}
	}
	for _, u := range urls {
		var config *tls.Config
		if u.Secure() {
			if s.certs == nil {
				return nil, nil, fmt.Errorf("%w: %s needs a certificate and its key: set %s and %s", ErrConfig, u,
					setting.Name("TLS.Cert"), setting.Name("TLS.Key"))
			}
			config = s.certs.Config()
		}
		l, err := u.Listen(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("listen on %s: %w", u, err)
		}
		split := listen.NewSplit(l, config, s.log)
		s.listeners = append(s.listeners, split)
		opened, bound = append(opened, split), append(bound, u.Bound(l).String())
	}
	return opened, bound, nil
}

func (s *Server) openStore(ctx context.Context, cfg *Config) (err error) {
	reserve := cmp.Or(cfg.DiskReserveBytes, defaultReserve)
	if s.backend, err = cfg.openBackend(ctx, s.state.wait, reserve); err != nil {
		return err
	}
	cacheBytes := cfg.CacheBytes
	if cacheBytes == 0 {
		cacheBytes = defaultCacheBytes()
	}
	// a Postgres that answers may not have a standby to commit with yet
	err = cfg.await(ctx, s.state.wait, func() (err error) {
		s.store, err = store.Open(ctx, s.backend, store.Config{
			Name: cfg.Name, ClientURLs: s.advertised,
			Logger: s.log, ProgressInterval: cfg.WatchProgressInterval, QuotaBytes: s.quota(cfg.QuotaBytes),
			MaxStaleness: cfg.DatastoreMaxStaleness, CacheBytes: cacheBytes, Observer: s.metrics,
			Caller: etcdshim.Caller,
			HangUp: s.hangUp,
		})
		return err
	})
	if err != nil {
		return err
	}
	s.metrics.Watch(s.store)
	if b, ok := s.backend.(backend.Pooled); ok {
		s.metrics.WatchConnections(b.Connections)
	}
	if b, ok := s.backend.(backend.Reserving); ok {
		s.metrics.WatchReserve(b.Reserved)
	}
	return nil
}

func (s *Server) openShim(ctx context.Context, cfg *Config) (err error) {
	o := etcdshim.Options{
		// Tests use temporary stores and may start a hundred of them in one process. With 512 goroutines each that
		// would be 50,000.
		NoWorkers: cfg.Temporary(),
		// there are no peers, but etcd's tools expect URLs
		Name: cfg.Name, ClientURLs: s.advertised, PeerURLs: s.advertised,
		Version:         EtcdVersion,
		MaxRequestBytes: cfg.MaxRequestBytes, MaxTxnOps: cfg.MaxTxnOps, MaxConcurrentStreams: cfg.MaxConcurrentStreams,
		KeepaliveMinTime: cfg.KeepaliveMinTime, KeepaliveInterval: cfg.KeepaliveInterval,
		KeepaliveTimeout: cfg.KeepaliveTimeout,
		WarningDuration:  cfg.warning(),
		Logger:           s.log,
	}
	o.ServerOptions = append(o.ServerOptions, grpc.Creds(listen.Credentials()))
	o.UnaryInterceptors = append(o.UnaryInterceptors, s.metrics.Unary())
	o.StreamInterceptors = append(o.StreamInterceptors, s.metrics.Stream())
	if s.shim, err = etcdshim.NewServer(ctx, s.store, o); err != nil {
		return err
	}
	s.metrics.Attach(s.shim.GRPC, s.shim.Traffic)
	return nil
}

// serveHTTP starts to serve what is available before the database is open.
func (s *Server) serveHTTP(clients, metrics []*listen.Split, cfg *Config) {
	starting := s.metrics.StartingHandler(EtcdVersion, reporter{s})
	s.front[0].set(s.guardClients(cfg, starting))
	s.front[1].set(s.guardMetrics(cfg, starting))
	client, ops := s.newHTTP(&s.front[0]), s.newHTTP(&s.front[1])
	client.HTTP2 = cfg.http2()
	s.http, s.ops = []*http.Server{client}, ops
	for _, l := range clients {
		s.wg.Go(func() { s.ended("http", client.Serve(l.HTTP)) })
	}
	for _, l := range metrics {
		s.log.Info("serving metrics", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.refuse(l.GRPC) })
		s.wg.Go(func() { s.ended("metrics", ops.Serve(l.HTTP)) })
	}
}

func (s *Server) serve(clients []*listen.Split, cfg *Config) {
	ops := s.metrics.Handler(s.store, EtcdVersion, reporter{s})
	if cfg.Profiling {
		ops.HandleFunc("/debug/pprof/", pprof.Index)
		ops.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		ops.HandleFunc("/debug/pprof/profile", pprof.Profile)
		ops.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		ops.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	all := http.NewServeMux()
	all.Handle("/", ops)
	all.Handle("/v3/", s.shim.Gateway)
	s.front[0].set(s.grpcOr(s.guardClients(cfg, all)))
	s.front[1].set(s.guardMetrics(cfg, ops))
	for _, l := range clients {
		s.log.Info("serving clients", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("grpc", s.shim.GRPC.Serve(l.GRPC)) })
	}
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler: listen.WatchHangups(listen.HangupPeriod, h), ReadHeaderTimeout: 10 * time.Second,
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

// grpcOr also serves the few gRPC clients that offer HTTP/1.1 and therefore end up at the HTTP server.
func (s *Server) grpcOr(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			s.shim.HTTP.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refuse closes gRPC connections where there is no gRPC server.
func (s *Server) refuse(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func (s *Server) ended(what string, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) &&
		!errors.Is(err, grpc.ErrServerStopped) {
		s.log.Error("listener failed", "for", what, "error", err)
	}
}

// hangUp closes the connection of a client that does not read its answers while others wait.
func (s *Server) hangUp(caller any) {
	client := etcdshim.CallerAddress(caller)
	if client == nil {
		return
	}
	s.log.Debug("closed the connection of a client that does not read its answers while others wait", "client",
		client.String())
	for _, l := range s.listeners {
		l.HangUp(client)
	}
}

// Endpoints returns the URLs that clients can connect to, as listened on.
func (s *Server) Endpoints() []string { return s.clients }

// Done is closed when the server can acknowledge no more writes. See Err.
func (s *Server) Done() <-chan struct{} { return s.store.Done() }

// Err returns why Done was closed.
func (s *Server) Err() error { return s.store.Err() }
