package sqlstore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// consoleTimeout limits how long a browser may take to send a request, and to receive a page.
const consoleTimeout = time.Minute

// checkConsole refuses a console without pages, or where other machines can reach it: it asks for a user only while
// etcd's authentication is enabled. Errors: [ErrConfig].
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
		if !u.Local() {
			return fmt.Errorf("%w: %s: %s: the console is for this machine only: listen on 127.0.0.1, and reach it "+
				"from elsewhere through a tunnel, such as that of 'ssh -L'", ErrConfig, name, u)
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
	s.http = append(s.http, h)
	for _, l := range listeners {
		s.log.Info("serving the console", "address", l.HTTP.Addr().String())
		s.wg.Go(func() { s.ended("console", h.Serve(l.HTTP)) })
	}
}

// openConsole makes the console's handler, over what the other listeners serve.
func (s *Server) openConsole(cfg *Config, ops http.Handler) {
	local := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A ServeMux would redirect keys with dots.
		if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/v1/") || path == "/openapi.json" {
			s.objects.ServeHTTP(w, r)
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
	s.front[4].set(s.guardConsole(cfg, console))
}

// guardConsole guards the console against DNS rebinding. A whitelist is for the JSON gateway: it adds hosts here, but
// not all of them, because nothing else protects the console.
func (s *Server) guardConsole(cfg *Config, next http.Handler) http.Handler {
	listed := slices.DeleteFunc(slices.Clone(cfg.HostWhitelist), func(host string) bool {
		return strings.TrimSpace(host) == "*"
	})
	h := listen.NewHosts(listed, s.advertised, next)
	h.Besides = true
	return h
}
