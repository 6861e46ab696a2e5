package sqlstore

import (
	"net/http"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/restapi"
)

const (
	// objectsIdle is how long a list/watch connection may wait for its next request.
	objectsIdle = 3 * time.Minute
	// objectsGuard limits how long it takes to send an answer that comes from the guard and not from the API.
	objectsGuard = time.Minute
	// objectsPing is how long an HTTP/2 client may be silent before the server pings it. Watches may be silent forever.
	objectsPing = 30 * time.Second
)

// ObjectEndpoints returns the URLs that serve the list/watch API, or none if it is off.
func (s *Server) ObjectEndpoints() []string { return s.objectURLs }

// openObjects creates the list/watch API.
func (s *Server) openObjects(cfg *Config) {
	o := restapi.Options{
		MaxRequestBytes: cfg.MaxRequestBytes, WarningDuration: cfg.warning(), Version: Version, Logger: s.log,
	}
	s.objects = restapi.New(s.store, s.backend, o)
	s.metrics.Registry.MustRegister(s.objects.Metrics())
}

// serveObjects serves the list/watch API over HTTP, also to clients that offer only HTTP/2.
func (s *Server) serveObjects(listeners []*listen.Split, cfg *Config) {
	if len(listeners) == 0 {
		return
	}
	// etcd's default lets every web page use its JSON API. This API is new and need not keep that promise.
	guard := listen.NewHosts(cfg.HostWhitelist, s.advertised,
		&listen.Origins{Allowed: cfg.CORS, Named: true, Next: s.objects})
	h := s.newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// for the guard's answers; the API sets its own deadline
		if c := http.NewResponseController(w); r.ProtoMajor == 1 {
			_ = c.SetWriteDeadline(time.Now().Add(objectsGuard))
			if r.ContentLength != 0 {
				_ = c.SetReadDeadline(time.Now().Add(objectsGuard))
			}
		}
		guard.ServeHTTP(w, r)
	}))
	h.IdleTimeout = objectsIdle
	h.HTTP2 = &http.HTTP2Config{SendPingTimeout: objectsPing}
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.Protocols.SetUnencryptedHTTP2(true) // connections that begin with HTTP/2's preface come from the GRPC half
	s.http = append(s.http, h)
	for _, l := range listeners {
		s.log.Info("serving the list/watch API", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("objects", h.Serve(l.HTTP)) })
		s.wg.Go(func() { s.ended("objects", h.Serve(l.GRPC)) })
	}
}
