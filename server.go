package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/backup"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// EtcdVersion is the version of etcd whose API the server implements.
const EtcdVersion = "3.7.3"

// Version is the version of sqlstore. Releases set it at link time.
var Version = "0.1.0-dev"

const (
	// closeTimeout limits how long Close waits for requests in flight.
	closeTimeout = 10 * time.Second
	// idleTimeout is how long Close waits for clients while no call is served and no connection moves a byte. Some
	// clients stop halfway through a handshake or a request, or do not answer a GOAWAY.
	idleTimeout = time.Second
)

// cutOff is logged when a stop ends requests that are still being served.
const cutOff = "cut off requests still in flight"

// Server is a running server.
type Server struct {
	log      *slog.Logger
	backend  backend.Backend
	store    *store.Store
	shim     *etcdshim.Server
	objects  *restapi.Server // nil if it is off
	tokens   authn.Tokens
	authn    *authn.Authenticator
	audit    *audit.Log // nil if it is off
	metrics  *telemetry.Metrics
	http     []*http.Server // for clients
	early    *http.Server   // one of http, in place of the gRPC server until that serves
	ops      *http.Server   // for the metrics listeners
	started  chan struct{}  // closed once the gRPC server serves
	front    [5]stage       // for the listeners of clients, metrics, clients' HTTP, the list/watch API and the console
	certs    *listen.Certificates
	auto     autoTLS
	monitor  *conditions.Monitor
	state    state
	quota    func(configured int64) int64
	hungUp   loglimit.Limit
	slow     loglimit.Limit // of commits
	database string         // its absolute path or its URL, without secrets
	before   string         // version of the program that served the database before, if any
	opened   sync.Once
	size     sizeReader

	listeners  []*listen.Split
	clients    []string // URLs of the client listeners
	advertised []string // URLs given to clients
	objectURLs []string // URLs of the list/watch API
	// consoleURLs are the URLs of the console.
	consoleURLs []string
	// consoleContext ends when the console has to stop, by stopConsole. Both are nil if there is none.
	consoleContext context.Context
	stopConsole    context.CancelFunc
	compacting     compacting
	// stopProfiles ends profiles and traces that are being made, nil if there are none.
	stopProfiles context.CancelFunc
	// stopChecking ends the checks for corruption, nil before they start.
	stopChecking context.CancelFunc
	backups      atomic.Pointer[backup.Runner] // nil if there are none
	backupName   string                        // set before backups
	stopBackups  context.CancelFunc            // nil before they start
	wg           sync.WaitGroup
	closing      sync.Once
	closeErr     error
}

// Endpoints returns the URLs on which the server listens for clients.
func (s *Server) Endpoints() []string { return s.clients }

// ObjectEndpoints returns the URLs that serve the list/watch API, or none if it is off.
func (s *Server) ObjectEndpoints() []string { return s.objectURLs }

// ConsoleEndpoints returns the URLs that serve the console, or none if it is off.
func (s *Server) ConsoleEndpoints() []string { return s.consoleURLs }

// Done is closed when the server can acknowledge no more writes. See Err.
func (s *Server) Done() <-chan struct{} { return s.store.Done() }

// Err returns the reason why Done was closed.
func (s *Server) Err() error { return s.store.Err() }

// Alive returns an error if the process is unusable and should be restarted. Over Postgres it returns nil whatever the
// state of the database, because a restart would not help.
func (s *Server) Alive(ctx context.Context) error {
	if s.store.NoLeader() != nil {
		return nil
	}
	_, err := s.store.Status(ctx)
	return err
}

// Reload holds the settings that may change while a server runs.
type Reload struct {
	QuotaBytes int64
	TLS        TLSFiles
	Compaction compactor.Config
	// AcknowledgedConditions is as in [Config].
	AcknowledgedConditions []string
}

// Reload applies new settings, all or none. Either way it raises the generation in the conditions. Errors: [ErrConfig],
// [compactor.ErrConfig], those of reading TLS files.
func (s *Server) Reload(r Reload) error {
	r.TLS = s.auto.files(r.TLS)
	err := s.reload(r)
	s.reloaded(r.AcknowledgedConditions, err)
	return err
}

func (s *Server) reload(r Reload) error {
	if err := r.Compaction.Check(); err != nil {
		return err
	}
	if err := checkAcknowledged(r.AcknowledgedConditions); err != nil {
		return err
	}
	if s.certs != nil {
		if err := s.certs.SetFiles(listen.Files(r.TLS)); err != nil {
			return err
		}
	} else if r.TLS.wanted() {
		return fmt.Errorf("%w: TLS cannot be switched on while the server runs", ErrConfig)
	}
	// Everything that can fail is done: the compactor accepts whatever Check has passed.
	s.store.SetQuota(s.quota(r.QuotaBytes))
	return s.compact(r.Compaction)
}

func (s *Server) closeAudit() error {
	if s.audit == nil {
		return nil
	}
	return s.audit.Close()
}

// RotateAuditLog continues the audit log in a new file of the same name, after a tool has renamed the old one.
func (s *Server) RotateAuditLog() error {
	if s.audit == nil {
		return nil
	}
	err := s.audit.Reopen()
	s.monitor.Check()
	return err
}

// compacting holds the background compactor. All settings share one, because it knows past revisions, which a new one
// would take a whole retention to learn.
type compacting struct {
	sync.Mutex
	compactor *compactor.Compactor // nil until the first use
	stop      context.CancelFunc
	closed    bool
}

// compact applies cfg, and starts a background compactor if there is none yet.
func (s *Server) compact(cfg compactor.Config) error {
	r := &s.compacting
	r.Lock()
	defer r.Unlock()
	switch {
	case r.closed:
		return nil
	case r.compactor != nil:
		return r.compactor.Set(cfg)
	}
	cfg.Logger = s.log
	c, err := compactor.New(s.store, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.compactor, r.stop = c, stop
	s.metrics.WatchCompaction(c.State)
	s.wg.Go(func() { c.Run(ctx) })
	return nil
}

func (s *Server) stopCompacting() {
	r := &s.compacting
	r.Lock()
	defer r.Unlock()
	r.closed = true
	if r.stop != nil {
		r.stop()
	}
}

// Close lets requests in flight finish, for at most ten seconds, and closes the database. It does not wait for
// connections without a request.
func (s *Server) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	if s.monitor == nil {
		return s.closeAudit() // nothing was started
	}
	s.enter(conditions.Stopping) // visible to probes while requests finish
	errs := s.stopServing()
	s.stopCompacting()
	if s.stopChecking != nil {
		s.stopChecking()
	}
	if s.stopBackups != nil {
		s.stopBackups()
	}
	s.state.stopMonitor()
	s.wg.Wait()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	errs = append(errs, s.closeAudit())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func (s *Server) stopServing() (errs []error) {
	grace, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	defer func() {
		if grace.Err() != nil {
			s.log.Warn(cutOff, "after", closeTimeout)
		}
	}()
	served := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { s.cutIdle(grace, served) })
	defer watching.Wait()
	defer close(served)
	if s.stopConsole != nil { // before the API, whose end its streams would report
		s.stopConsole()
	}
	if s.stopProfiles != nil {
		s.stopProfiles()
	}
	if s.objects != nil {
		s.objects.Stop()
	}
	var stopped sync.WaitGroup
	if s.shim != nil {
		stopped.Go(func() { s.shim.Shutdown(grace) })
	}
	failed := make([]error, len(s.http))
	for i, h := range s.http { // concurrently: both serve clients
		stopped.Go(func() { failed[i] = shutdown(grace, h) })
	}
	stopped.Wait()
	errs = append(errs, failed...)
	if s.shim != nil {
		s.shim.Close()
	}
	if s.ops != nil { // last, so that probes are answered until then
		errs = append(errs, shutdown(grace, s.ops))
	}
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	s.cut() // websockets, which no server tracks any more
	return errs
}

// shutdown lets an HTTP server's requests finish until grace ends.
func shutdown(grace context.Context, h *http.Server) error {
	if err := h.Shutdown(grace); err != nil {
		return h.Close()
	}
	return nil
}

// cutIdle closes all connections once they are idle, or when grace ends.
func (s *Server) cutIdle(grace context.Context, served <-chan struct{}) {
	tick := time.NewTicker(idleTimeout / 8)
	defer tick.Stop()
	var moved uint64
	for idle := time.Now(); ; {
		select {
		case <-served:
			return
		case <-grace.Done():
			s.cut()
			return
		case now := <-tick.C:
			n := uint64(0)
			for _, l := range s.listeners {
				n += l.Moved()
			}
			if n != moved || s.serving() > 0 {
				moved, idle = n, now
			} else if now.Sub(idle) >= idleTimeout {
				s.log.Info("closing idle connections that did not end by themselves")
				s.cut()
				return
			}
		}
	}
}

// serving counts the calls and requests on which the server works, which may be silent for a while. Requests over HTTP
// that wait for their client are not among them.
func (s *Server) serving() (n int) {
	if s.shim != nil {
		n += s.shim.Working()
	}
	if s.objects != nil {
		n += s.objects.Working()
	}
	return n
}

func (s *Server) cut() {
	for _, l := range s.listeners {
		l.Cut()
	}
}

// hangUp closes the connection of a client that does not read its answers while others wait.
func (s *Server) hangUp(caller any) {
	client := etcdshim.CallerAddress(caller)
	if client == nil {
		return
	}
	if skipped, ok := s.hungUp.Allow(); ok {
		s.log.Warn("closed the connection of a client that does not read its answers while others wait for the memory",
			"client", client.String(), "not-logged-before", skipped)
	}
	for _, l := range s.listeners {
		l.HangUp(client)
	}
}
