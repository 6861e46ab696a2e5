package restapi

import (
	"time"

	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// shownPath is how much of a path is logged.
const shownPath = 256

// slowCalls limits the lines for slow requests: if the database is slow all of them are.
func slowCalls() loglimit.Limit { return loglimit.Limit{Lines: 10, Period: 10 * time.Second} }

// reportSlow logs a request that took longer than the threshold. Of a watch, which lasts as long as its client likes,
// the time until its answer began counts.
func (s *Server) reportSlow(c *call, took time.Duration) {
	if c.verb == verbWatch && c.code != 0 {
		took = c.begun.Sub(c.received)
	}
	if s.o.WarningDuration <= 0 || took < s.o.WarningDuration {
		return
	}
	skipped, ok := s.slow.Allow()
	if !ok {
		return
	}
	code := c.code
	if code == 0 {
		code = codeClientClosedRequest
	}
	path := c.r.URL.Path
	s.o.Logger.Warn("slow request", "method", c.r.Method, "verb", c.verb, "path", path[:min(len(path), shownPath)],
		"took", took, "threshold", s.o.WarningDuration, "client", c.r.RemoteAddr, "code", code,
		"not-logged-before", skipped)
}
