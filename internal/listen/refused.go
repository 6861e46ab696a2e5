package listen

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// refusals logs the clients that a listener cannot serve. A misconfigured client retries forever, so only some of those
// that come together are logged.
type refusals struct {
	log   *slog.Logger
	limit loglimit.Limit
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, limit: loglimit.Limit{Lines: 5, Period: 10 * time.Second}}
}

// add logs a client and why it is refused. A connection that ends before it sends anything is a port scan or a load
// balancer's probe.
func (r *refusals) add(client net.Addr, reason error) {
	if errors.Is(reason, io.EOF) || errors.Is(reason, syscall.ECONNRESET) || errors.Is(reason, context.Canceled) {
		r.log.Debug("client disconnected before the handshake", "client", client.String())
		return
	}
	if skipped, ok := r.limit.Allow(); ok {
		r.log.Warn("client refused", "client", client.String(), "reason", reason, "not-logged-before", skipped)
	}
}
