package sqlstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

const (
	// defaultDatastoreWait is how long Start waits for an unreachable Postgres.
	defaultDatastoreWait = time.Minute
	// datastoreRetry is the pause between two attempts. datastoreReport is the pause between the first two log lines;
	// each further pause doubles.
	datastoreRetry  = time.Second
	datastoreReport = 5 * time.Second
)

// Start opens the database, migrates it if needed, and serves. ctx limits only the start. Errors: [ErrConfig],
// [ErrPlaintext], [compactor.ErrConfig], those of listening and of opening the database (package backend: in use,
// schema newer, no permission).
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{
		log: cfg.logger(), quota: cfg.quota, hungUp: loglimit.Limit{Lines: 5, Period: 10 * time.Second},
	}
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
	s.awaitVerified(ctx)
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

// unspecified reports whether a URL's host is an unspecified address, such as 0.0.0.0.
func unspecified(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsUnspecified()
}

// secure reports whether a listener's URL uses TLS.
func secure(u string) bool { return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unixs:") }

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

// OpenBackend opens the database that Datastore names and migrates it if needed. It waits for a Postgres that is
// unreachable. Errors: [ErrConfig], those of opening the database.
func (c *Config) OpenBackend(ctx context.Context) (backend.Backend, error) {
	return c.openBackend(ctx, func(error) {}, 0)
}

// openBackend is OpenBackend. It calls waiting with the reason why the database is not usable yet, and with nil once it
// is. A SQLite database holds reserve bytes of the disk; see [sqlite.Config].
func (c *Config) openBackend(
	ctx context.Context, waiting func(error), reserve int64,
) (backend.Backend, error) {
	if c.OnPostgres() {
		return c.openPostgres(ctx, waiting)
	}
	path, err := c.file()
	if err != nil {
		return nil, err
	}
	b, err := sqlite.Open(ctx, sqlite.Config{
		Path: path, Temporary: path == "", UnsafeNoFsync: c.UnsafeNoFsync, ReserveBytes: reserve,
		Logger: c.logger(),
	})
	if err != nil {
		return nil, err // a nil *sqlite.Backend would be a Backend that is not nil
	}
	return b, nil
}

// openPostgres retries until the server answers, or refuses for a reason that does not resolve itself.
func (c *Config) openPostgres(ctx context.Context, waiting func(error)) (backend.Backend, error) {
	if c.DatastorePasswordFile != "" {
		if _, err := os.Stat(c.DatastorePasswordFile); err != nil {
			return nil, fmt.Errorf("%w: the datastore password file: %w", ErrConfig, err)
		}
	}
	var b backend.Backend
	err := c.await(ctx, waiting, func() error {
		opened, err := postgres.Open(ctx, c.postgres())
		if err == nil {
			b = opened
		}
		return err
	})
	return b, err
}

// await calls try until it succeeds, DatastoreWait has passed, or the database refuses for a reason that does not
// resolve itself. It tries a database other than Postgres once.
func (c *Config) await(ctx context.Context, waiting func(error), try func() error) error {
	timeout := c.DatastoreWait
	switch {
	case !c.OnPostgres():
		return try()
	case timeout == 0:
		timeout = defaultDatastoreWait
	}
	began := time.Now()
	deadline, report, pause := began.Add(timeout), began, datastoreReport
	retry := time.NewTicker(datastoreRetry)
	defer retry.Stop()
	for {
		err := try()
		waiting(err)
		now := time.Now()
		switch {
		case err == nil && report.After(began):
			c.logger().Info("database is available", "after", now.Sub(began))
			return nil
		case err == nil || ctx.Err() != nil || now.After(deadline) || !comesBack(err):
			return err
		case !now.Before(report):
			c.logger().Warn("database is not available yet, retrying", "error", err, "every", datastoreRetry,
				"until", deadline.UTC().Truncate(time.Second), "next-report-in", pause)
			report, pause = now.Add(pause), 2*pause
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-retry.C:
		}
	}
}

// comesBack reports whether waiting can help. It cannot if the server rejects the user, the password or the database.
func comesBack(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (strings.HasPrefix(refused.Code, "28") || refused.Code == "3D000") {
		return false
	}
	return errors.Is(err, backend.ErrUnavailable)
}

// OpenView opens the database that Datastore names for reading, also while servers write to it. Errors: [ErrConfig],
// those of opening the database.
func (c *Config) OpenView(ctx context.Context) (backend.View, error) {
	if c.OnPostgres() {
		return view(postgres.OpenView(ctx, c.postgres()))
	}
	path, err := c.file()
	if err != nil {
		return nil, err
	}
	return view(sqlite.OpenView(ctx, path))
}

// view returns no View at all after an error: a nil pointer would be a View that is not nil.
func view[V backend.View](v V, err error) (backend.View, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// WithDatabase passes the database to f without migrating it, to inspect or change its schema. Errors: [ErrConfig],
// those of opening the database, and those of f.
func (c *Config) WithDatabase(ctx context.Context, f func(context.Context, *sql.DB) error) error {
	if c.OnPostgres() {
		return postgres.WithDatabase(ctx, c.postgres(), f)
	}
	path, err := c.file()
	if err != nil {
		return err
	}
	return sqlite.WithDatabase(ctx, path, f)
}
