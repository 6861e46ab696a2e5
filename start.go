package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// Start opens the database, migrates it if needed, and serves. ctx limits only the start. Errors: [ErrConfig],
// [ErrPlaintext], [ErrEtcdData], [compactor.ErrConfig], those of listening and of opening the database (package
// backend: in use, schema newer, no permission).
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{
		log: cfg.logger(), quota: cfg.quota, hungUp: loglimit.Limit{Lines: 5, Period: 10 * time.Second},
		slow:    loglimit.Limit{Lines: 5, Period: 10 * time.Second},
		started: make(chan struct{}), state: state{waits: make(chan struct{})},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if s.auto, err = cfg.autoTLS(s.log); err != nil {
		return nil, err
	}
	cfg.TLS = s.auto.files(cfg.TLS)
	if cfg.TLS.wanted() {
		if s.certs, err = cfg.TLS.load(s.log); err != nil {
			return nil, err
		}
	}
	if err := s.openAuth(&cfg); err != nil {
		return nil, err
	}
	s.monitorConditions(&cfg)
	clientURLs := cfg.ListenClientURLs
	if len(clientURLs) == 0 {
		clientURLs = []string{"http://127.0.0.1:0"}
	}
	split := len(cfg.ListenClientHTTPURLs) > 0
	clients, urls, err := s.open(ctx, clientURLs, listen.Mode{
		OnlyGRPC: split, ByRequest: true, MaxStreams: cfg.MaxConcurrentStreams,
	}, &cfg)
	if err != nil {
		return nil, err
	}
	s.clients = urls
	httpClients, httpURLs, err := s.open(ctx, cfg.ListenClientHTTPURLs, listen.Mode{OnlyHTTP: true}, &cfg)
	if err != nil {
		return nil, err
	}
	if s.certs != nil && !slices.ContainsFunc(urls, secure) {
		s.log.Warn("TLS files are given, but no client URL uses them: serve clients on https", "listeners", urls)
	}
	s.advertise(&cfg)
	metrics, _, err := s.open(ctx, cfg.ListenMetricsURLs, listen.Mode{OnlyHTTP: true}, &cfg)
	if err != nil {
		return nil, err
	}
	objects, urls, err := s.open(ctx, cfg.ListenObjectsURLs, listen.Mode{}, &cfg)
	if err != nil {
		return nil, err
	}
	s.objectURLs = urls
	if cfg.TLS.TrustedCA != "" {
		s.warnUnasked(slices.Concat(s.clients, httpURLs, s.objectURLs))
	}
	console, urls, err := s.open(ctx, cfg.ListenConsoleURLs, listen.Mode{OnlyHTTP: true}, &cfg)
	if err != nil {
		return nil, err
	}
	s.consoleURLs = urls
	s.metrics = telemetry.New(telemetry.Config{
		Version: EtcdVersion, SQLStore: Version,
		Extensive: cfg.ExtensiveMetrics, EtcdReady: cfg.EtcdReady,
		InitialCorruptCheck: cfg.CorruptChecks.Initial,
		CompactHashCheck:    cfg.CorruptChecks.CompactionPeriod > 0,
		SlowCommit:          cmp.Or(cfg.WarningApplyDuration, defaultApplyWarning), Slow: s.slowCommit,
		Tracer: cfg.tracer(), Console: s.consoleURLs,
	})
	s.metrics.WatchConditions(reporter{s})
	if s.certs != nil {
		s.metrics.WatchCertificates(s.certificateEnds)
	}
	s.serveHTTP(clients, httpClients, metrics, &cfg)
	s.serveObjects(objects, &cfg)
	s.serveConsole(console, &cfg)
	if err := s.openStore(ctx, &cfg); err != nil {
		return nil, err
	}
	if err := s.compact(cfg.Compaction); err != nil {
		return nil, err
	}
	if err := s.openShim(ctx, &cfg); err != nil {
		return nil, err
	}
	if len(objects)+len(console) > 0 {
		s.openObjects(&cfg)
	}
	s.awaitVerified(ctx)
	if err := s.checkInitially(ctx, cfg.CorruptChecks); err != nil {
		return nil, err
	}
	s.checkPeriodically(cfg.CorruptChecks)
	s.backUp(cfg.Backups)
	s.serve(clients, &cfg)
	s.enter(conditions.Serving)
	return s, nil
}

// recordProgram records which version serves the database, and remembers which one did before. A start does not depend
// on it.
func (s *Server) recordProgram(ctx context.Context) {
	b, ok := s.backend.(backend.Programs)
	if !ok {
		return
	}
	before, err := b.RecordProgram(ctx, Version)
	if err != nil {
		s.log.Warn("the version of this program is not recorded in the database", "error", err)
	}
	s.before = before
}

// logOpened logs what the database holds. A new one shows that the server was started with the wrong directory.
func (s *Server) logOpened(ctx context.Context, revision int64, keys int) {
	s.opened.Do(func() {
		if s.before == "" && revision <= 1 {
			s.log.Info("created a new, empty database", "database", s.database)
			return
		}
		attrs := []any{"database", s.database, "revision", revision, "keys", keys}
		if size, err := s.backend.Size(ctx); err == nil {
			attrs = append(attrs, "bytes", size.Total)
		}
		if s.before != "" { // an import or a restore records no server
			attrs = append(attrs, "written-by", s.before)
		}
		s.log.Info("opened the database", attrs...)
	})
}

// openAuth checks the settings of tokens and opens the audit log.
func (s *Server) openAuth(cfg *Config) (err error) {
	tokens, level, err := cfg.parseAuth(s.log)
	if err != nil {
		return err
	}
	s.tokens = tokens
	if cost := cfg.BcryptCost; cost != 0 && !authn.ValidCost(cost) {
		s.log.Warn(setting.Name("BcryptCost")+" is out of range: using the default", "range", authn.CostRange(),
			"default", authn.DefaultCost)
	}
	if cfg.AuditLog == "" {
		return nil
	}
	if s.audit, err = audit.Open(cfg.AuditLog, level); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("AuditLog"), err)
	}
	return nil
}

// advertise chooses the URLs given to clients.
func (s *Server) advertise(cfg *Config) {
	if s.advertised = cfg.AdvertiseClientURLs; len(s.advertised) == 0 {
		s.advertised = listen.Advertised(s.clients)
	}
	for _, u := range s.advertised {
		if listen.Wildcard(u) {
			s.log.Warn("this server advertises an address that other machines cannot reach: set "+
				setting.Name("AdvertiseClientURLs"), "url", u)
		}
	}
}

// warnUnasked warns of URLs whose clients need no certificate, while those of other URLs do. Only the server's own user
// can connect to a unix socket.
func (s *Server) warnUnasked(urls []string) {
	open := slices.DeleteFunc(urls, func(u string) bool { return !strings.HasPrefix(u, "http:") })
	if len(open) > 0 {
		s.log.Warn("clients need no certificate on listeners without TLS, in spite of "+setting.Name("TLS.TrustedCA")+
			": serve them on https", "listeners", open)
	}
}

// secure reports whether a listener's URL uses TLS.
func secure(u string) bool { return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unixs:") }

// open listens on urls and splits connections between gRPC and HTTP. An http and an https URL with the same address
// share a listener.
func (s *Server) open(
	ctx context.Context, raw []string, mode listen.Mode, cfg *Config,
) (opened []*listen.Split, bound []string, err error) {
	urls, err := cfg.parseURLs(raw, s.certs != nil)
	if err != nil {
		return nil, nil, err
	}
	for _, same := range listen.ByAddress(urls) {
		mode.TLS, mode.Plaintext = nil, false
		for _, u := range same {
			if !u.Secure() {
				mode.Plaintext = true
				continue
			}
			mode.TLS = s.certs.Config()
		}
		l, err := same[0].Listen(ctx, listen.SocketOptions{ReusePort: cfg.ReusePort, ReuseAddress: cfg.ReuseAddress})
		if err != nil {
			return nil, nil, fmt.Errorf("listen on %s: %w", same[0], err)
		}
		split := listen.NewSplit(l, mode, s.log)
		s.listeners = append(s.listeners, split)
		opened = append(opened, split)
		for _, u := range same {
			bound = append(bound, u.Bound(l).String())
		}
	}
	return opened, bound, nil
}

func (s *Server) openStore(ctx context.Context, cfg *Config) (err error) {
	reserve := cmp.Or(cfg.DiskReserveBytes, defaultReserve)
	if s.backend, err = cfg.openBackend(ctx, s.state.wait, reserve); err != nil {
		return err
	}
	if err := cfg.refuseEtcdDirectory(ctx, s.backend, s.state.wait); err != nil {
		return err
	}
	if s.database, err = cfg.absoluteDatabase(); err != nil {
		return err
	}
	s.recordProgram(ctx)
	if err := s.defragment(ctx, cfg); err != nil {
		return err
	}
	// a Postgres that answers may not have a standby to commit with yet
	err = cfg.await(ctx, s.state.wait, func() (err error) {
		s.store, err = store.Open(ctx, s.backend, store.Config{
			Name: cfg.Name, ClientURLs: s.advertised,
			Logger: s.log, ProgressInterval: cfg.WatchProgressInterval, QuotaBytes: cfg.QuotaBytes,
			MaxStaleness: cfg.DatastoreMaxStaleness, CacheBytes: cfg.CacheBytes, ResultBytes: resultBytes(),
			QueueBytes: queueBytes(),
			Observer:   s.metrics,
			Loaded:     s.logOpened,
			Caller:     etcdshim.Caller,
			HangUp:     s.hangUp,
			Tracer:     cfg.tracer(),
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
	if b, ok := s.backend.(backend.OnDisk); ok {
		s.metrics.WatchFreeDisk(b.FreeDisk)
	}
	return nil
}

// defragment shrinks SQLite's file before it is served, if enough of it is free.
func (s *Server) defragment(ctx context.Context, cfg *Config) error {
	if cfg.DefragThresholdMegabytes == 0 || cfg.OnPostgres() {
		return nil
	}
	size, err := s.backend.Size(ctx)
	if err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	free := size.Total - size.InUse
	if uint(free>>20) < cfg.DefragThresholdMegabytes {
		s.log.Info("not defragmenting the database, too little of it is free", "free-bytes", free)
		return nil
	}
	s.log.Info("defragmenting the database before it is served", "free-bytes", free)
	if err := s.backend.Defragment(ctx); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// slowCommit logs a commit that took long, but not each of many.
func (s *Server) slowCommit(b store.Batch) {
	if skipped, ok := s.slow.Allow(); ok {
		s.log.Warn("a commit took long", "took", b.Commit, "operations", b.Operations, "not-logged-before", skipped)
	}
}

func (s *Server) openShim(ctx context.Context, cfg *Config) (err error) {
	s.authn = authn.New(s.store, authn.Options{Tokens: s.tokens, BcryptCost: cfg.bcryptCost(), Logger: s.log})
	s.metrics.WatchLogins(s.authn.Logins)
	if s.audit != nil {
		s.metrics.WatchAudit(s.audit.Lost)
	}
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
		WatchSent:        s.metrics.WatchSent,
		Logger:           s.log,
		Authenticator:    s.authn, ClientCertAuth: cfg.TLS.RequireClientCert, Audit: s.audit,
		Tracer: cfg.tracer(),
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
