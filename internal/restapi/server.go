package restapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/bodies"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/tracing"
	"github.com/sqlstore/sqlstore/paging"
)

const (
	defaultMaxRequestBytes = 3 << 19
	defaultTimeout         = time.Minute
)

// Options configures a Server. Zero fields have the defaults below.
type Options struct {
	// MaxRequestBytes limits the size of a key plus its value in a put. Default 1.5 MiB.
	MaxRequestBytes int
	// Timeout is how long a client may take to send a body or to receive a write, and how long a get, a put or a delete
	// may take in total. Default 1 min.
	Timeout time.Duration
	// Authenticator checks passwords and tokens. Default: one with simple tokens.
	Authenticator *authn.Authenticator
	// ClientCertAuth makes the common name of a client's certificate its user.
	ClientCertAuth bool
	// Audit is the audit log, nil for none.
	Audit *audit.Log
	// Tracer makes the spans of requests, nil for none.
	Tracer *tracing.Tracer
	// WarningDuration is the duration above which a request is logged as slow; of a watch, the time until its answer
	// begins. 0 logs none.
	WarningDuration time.Duration
	// Version is the program's version, for the description.
	Version string
	// Logger receives errors that clients do not see. Default: no log.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = defaultMaxRequestBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server is the API over one store. It implements [http.Handler].
type Server struct {
	engine   *store.Store
	pager    *paging.Pager
	o        Options
	metrics  *Metrics
	openapi  []byte
	stopping context.Context
	stop     context.CancelFunc
	serving  atomic.Int64
	awaiting atomic.Int64 // of those, how many wait for their client
	bodies   *bodies.Budget
	slow     loglimit.Limit
	leasing  chan struct{} // holds an element while an answer about leases is made
}

// New creates the API over s, without owning it: shut down the HTTP server first, then close the store.
func New(s *store.Store, keys paging.TokenKeys, o Options) *Server {
	o = o.withDefaults()
	if o.Authenticator == nil {
		o.Authenticator = authn.New(s, authn.Options{Logger: o.Logger})
	}
	out := &Server{
		engine: s, pager: paging.New(s, keys), o: o, metrics: newMetrics(), slow: slowCalls(),
		leasing: make(chan struct{}, 1),
	}
	out.openapi = describe(&o)
	out.bodies = bodies.NewBudget(o.putLimit(), o.Timeout)
	out.stopping, out.stop = context.WithCancel(context.Background())
	return out
}

// Starting refuses every request with 503 until the store is open. why returns the reason.
func Starting(why func() string) http.Handler {
	s := &Server{o: Options{}.withDefaults()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, r: r, ctl: http.NewResponseController(w), verb: verbNone}
		c.fail(failure(http.StatusServiceUnavailable, reasonUnavailable, why()).retry(1))
	})
}

// Metrics returns the request metrics.
func (s *Server) Metrics() *Metrics { return s.metrics }

// Serving returns the number of requests in progress, including watches.
func (s *Server) Serving() int { return int(s.serving.Load()) }

// Working returns the number of requests in progress that do not wait for their client.
func (s *Server) Working() int { return int(s.serving.Load() - s.awaiting.Load()) }

// Stop ends the watches and refuses new ones; other requests continue. Call it before the HTTP server's Shutdown.
func (s *Server) Stop() { s.stop() }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: w, r: r, ctl: http.NewResponseController(w), verb: verbNone, received: time.Now()}
	s.serving.Add(1)
	defer func() {
		c.held.Release()
		s.serving.Add(-1)
		took := time.Since(c.received)
		s.metrics.count(c.verb, c.code, took, c.span.Trace())
		s.reportSlow(c, took)
		c.report()
		c.traced()
	}()
	h := w.Header()
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.ProtoMajor == 1 {
		c.extend() // the deadline of the connection's previous request may have passed
	}
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}
