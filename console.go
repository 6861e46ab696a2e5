package sqlstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// consoleTimeout limits how long a browser may take to send a request, and to receive a page.
const consoleTimeout = time.Minute

// checkConsole refuses a console without pages, or one that other machines can reach without TLS. Errors: [ErrConfig].
func (c *Config) checkConsole() error {
	urls, err := listen.ParseURLs(c.ListenConsoleURLs)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	name := setting.Name("ListenConsoleURLs")
	if len(urls) > 0 && c.Console == nil {
		return fmt.Errorf("%w: %s needs %s", ErrConfig, name, setting.Name("Console"))
	}
	for _, u := range urls {
		if !u.Local() && !u.Secure() {
			return fmt.Errorf("%w: %s: %s: the network could read passwords and pages: use https with %s and %s, or "+
				"listen on 127.0.0.1 and reach the console through a tunnel, such as that of 'ssh -L'", ErrConfig, name,
				u, setting.Name("TLS.Cert"), setting.Name("TLS.Key"))
		}
	}
	return nil
}

// serveConsole starts to serve the console. It refuses all requests until the store is open.
func (s *Server) serveConsole(listeners []*listen.Split, cfg *Config) {
	s.front[4].set(s.guardConsole(cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, s.notReady(), http.StatusServiceUnavailable)
	})))
	s.consoleContext, s.stopConsole = context.WithCancel(context.Background())
	h := s.newHTTP(&s.front[4])
	h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = consoleTimeout, consoleTimeout, objectsIdle
	h.BaseContext = withReach
	s.http = append(s.http, h)
	for _, l := range listeners {
		s.log.Info("serving the console", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("console", h.Serve(l.HTTP)) })
	}
}

// openConsole makes the console's handler, over what the other listeners serve.
func (s *Server) openConsole(cfg *Config, ops http.Handler) {
	api := s.confirmUsers(cfg, s.objects)
	local := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A ServeMux would redirect keys with dots.
		if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/v1/") || path == "/openapi.json" {
			api.ServeHTTP(w, r)
			return
		}
		ops.ServeHTTP(w, r)
	})
	console := cfg.Console(s.consoleContext, local)
	if c, ok := console.(io.Closer); ok {
		s.wg.Go(func() {
			<-s.consoleContext.Done()
			if err := c.Close(); err != nil {
				s.log.Error("close the console", "error", err)
			}
		})
	}
	s.front[4].set(s.guardConsole(cfg, s.demandUsers(cfg, console)))
}

// guardConsole guards the console against DNS rebinding. A whitelist is for the JSON gateway: it adds hosts here, but
// not all of them, because nothing else protects a console that nobody logs in to. Over TLS, any name is served for
// which the browser accepts the certificate.
func (s *Server) guardConsole(cfg *Config, next http.Handler) http.Handler {
	listed := slices.DeleteFunc(slices.Clone(cfg.HostWhitelist), func(host string) bool {
		return strings.TrimSpace(host) == "*"
	})
	h := listen.NewHosts(listed, s.advertised, next)
	h.Besides = true
	return h
}

// demandUsers refuses those who reach the console from other machines while nobody has to log in.
func (s *Server) demandUsers(cfg *Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needsUsers(cfg, r) && !s.store.Auth().Enabled() {
			consoleClosed(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// confirmUsers is demandUsers for what shows keys, on the state that every replica has acknowledged.
func (s *Server) confirmUsers(cfg *Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needsUsers(cfg, r) {
			state, err := s.store.ConfirmAuth(r.Context())
			if err != nil {
				http.Error(w, "the database does not say whether authentication is enabled",
					http.StatusServiceUnavailable)
				return
			}
			if !state.Enabled() {
				consoleClosed(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// consoleClosed says why the console has no pages.
func consoleClosed(w http.ResponseWriter) {
	http.Error(w, "sqlstore: other machines can reach this console, so it is only for users who are known.\n"+
		"Enable authentication ('etcdctl auth enable', see docs/security.md), or set "+
		setting.Name("TLS.RequireClientCert")+" and give the browser a client certificate.", http.StatusForbidden)
}

type reachKey struct{}

// withReach records in the context of a listener's requests whether other machines can connect to it. Any plaintext
// listener may be the end of a tunnel from a browser's machine, even a unix socket.
func withReach(l net.Listener) context.Context {
	a, ok := l.Addr().(*net.TCPAddr)
	return context.WithValue(listen.AsLoopback(), reachKey{}, ok && !a.IP.IsLoopback())
}

// needsUsers reports whether a request may be served only while users have to log in: other machines can send it, and
// no client certificate names its user. Reloaded settings may no longer demand certificates, so each request counts.
func needsUsers(cfg *Config, r *http.Request) bool {
	beyond, _ := r.Context().Value(reachKey{}).(bool)
	named := cfg.TLS.RequireClientCert && r.TLS != nil && len(r.TLS.VerifiedChains) > 0
	return beyond && !named
}
