package listen

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// refusedAtOnce is how many refused clients are logged whenever they come, refusedPeriod how long the others of
	// those that come together are only counted: a client that is set up wrong tries again for ever.
	refusedAtOnce = 5
	refusedPeriod = 10 * time.Second
)

// refusals logs the clients that a listener cannot serve.
type refusals struct {
	log *slog.Logger

	mu      sync.Mutex
	began   time.Time // of the period
	logged  int       // in the period
	skipped int       // since the last line
}

// add logs a client and why it is refused, unless many have been refused just now. A connection that ends before it has
// said anything is a port scan or a load balancer's probe.
func (r *refusals) add(client net.Addr, reason error) {
	if errors.Is(reason, io.EOF) || errors.Is(reason, syscall.ECONNRESET) || errors.Is(reason, context.Canceled) {
		r.log.Debug("client has gone before it was greeted", "client", client.String())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.began) >= refusedPeriod {
		r.began, r.logged = now, 0
	}
	if r.logged >= refusedAtOnce {
		r.skipped++
		return
	}
	r.logged++
	attrs := []any{"client", client.String(), "reason", reason}
	if r.skipped > 0 {
		attrs = append(attrs, "not-logged-before", r.skipped)
	}
	r.skipped = 0
	r.log.Warn("client refused", attrs...)
}
