package sqlstore

import (
	"net/http"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/restapi"
)

const (
	// objectsIdle is how long a connection of the list/watch API may wait for its next request.
	objectsIdle = 3 * time.Minute
	// objectsGuard bounds an answer that is given before the API is asked.
	objectsGuard = time.Minute
	// objectsPing is after how long of silence a client of HTTP/2 is asked whether it is there, as its watches may be
	// silent for ever.
	objectsPing = 30 * time.Second
)

// ObjectEndpoints returns the URLs that the list/watch API is served on, none when it is off.
func (s *Server) ObjectEndpoints() []string { return s.objectURLs }

// openObjects makes the list/watch API.
func (s *Server) openObjects(cfg *Config) {
	o := restapi.Options{MaxRequestBytes: cfg.MaxRequestBytes, Version: Version, Logger: s.log}
	s.objects = restapi.New(s.store, s.backend, o)
	s.metrics.Registry.MustRegister(s.objects.Metrics())
}

// serveObjects serves the list/watch API. Its clients speak HTTP, also those that offer nothing but HTTP/2.
func (s *Server) serveObjects(listeners []*listen.Split, cfg *Config) {
	if len(listeners) == 0 {
		return
	}
	// etcd's default lets every web page use its JSON API. This one is new, so there is nobody to whom that was
	// promised.
	guard := newHosts(cfg.HostWhitelist, s.advertised, &origins{allowed: cfg.CORS, named: true, next: s.objects})
	h := s.newHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := http.NewResponseController(w); r.ProtoMajor == 1 { // for what guard answers; the API sets its own
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
	h.Protocols.SetUnencryptedHTTP2(true) // what begins with HTTP/2's preface comes from the GRPC half
	s.http = append(s.http, h)
	for _, l := range listeners {
		s.log.Info("serving objects", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("objects", h.Serve(l.HTTP)) })
		s.wg.Go(func() { s.ended("objects", h.Serve(l.GRPC)) })
	}
}
