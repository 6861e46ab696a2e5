package sqlstore

import (
	"fmt"
	"net/http"
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
func (s *Server) serveConsole(listeners []*listen.Split) {
	s.front[4].set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, s.notReady(), http.StatusServiceUnavailable)
	}))
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
	local := http.NewServeMux()
	local.Handle("/", ops)
	local.Handle("/v1/", s.objects)
	local.Handle("/openapi.json", s.objects)
	s.front[4].set(listen.NewHosts(cfg.HostWhitelist, s.advertised, cfg.Console(local)))
}
