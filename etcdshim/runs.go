package etcdshim

import (
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// runs logs an operation of which clients can ask for as many as they like: only some are logged, those whole.
type runs struct {
	log   *slog.Logger
	limit loglimit.Limit
}

func newRuns(log *slog.Logger) *runs {
	return &runs{log: log, limit: loglimit.Limit{Lines: 5, Period: 10 * time.Second}}
}

// begin logs that one begins, and returns where the rest of it is logged.
func (r *runs) begin(message string) *slog.Logger {
	skipped, ok := r.limit.Allow()
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	var attrs []any
	if skipped > 0 {
		attrs = append(attrs, "not-logged-before", skipped)
	}
	r.log.Info(message, attrs...)
	return r.log
}
