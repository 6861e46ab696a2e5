package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/conditions"
)

const (
	// closeTimeout limits how long Close waits for requests in flight.
	closeTimeout = 10 * time.Second
	// idleTimeout is how long Close waits for clients while no call is served and no connection moves a byte. Some
	// clients stop halfway through a handshake or a request, or do not answer a GOAWAY.
	idleTimeout = time.Second
)

// Close lets requests in flight finish, for at most ten seconds, and closes the database. It does not wait for
// connections without a request.
func (s *Server) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	if s.monitor == nil {
		return nil // nothing was started
	}
	s.enter(conditions.Stopping) // visible to probes while requests finish
	errs := s.stopServing()
	s.stopCompacting()
	s.state.stopMonitor()
	s.wg.Wait()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.backend != nil {
		errs = append(errs, s.backend.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func (s *Server) stopServing() (errs []error) {
	grace, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	served := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { s.cutIdle(grace, served) })
	defer watching.Wait() // before stop, which would look like the end of the grace period
	defer close(served)
	if s.objects != nil {
		s.objects.Stop()
	}
	var stopped sync.WaitGroup
	if s.shim != nil {
		stopped.Go(func() { s.shim.Shutdown(grace) })
	}
	failed := make([]error, len(s.http))
	for i, h := range s.http { // concurrently: both serve clients
		stopped.Go(func() { failed[i] = shutdown(grace, h) })
	}
	stopped.Wait()
	errs = append(errs, failed...)
	if s.shim != nil {
		s.shim.Close()
	}
	if s.ops != nil { // last, so that probes are answered until then
		errs = append(errs, shutdown(grace, s.ops))
	}
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	s.cut() // websockets, which no server tracks any more
	return errs
}

// shutdown lets an HTTP server's requests finish until grace ends.
func shutdown(grace context.Context, h *http.Server) error {
	if err := h.Shutdown(grace); err != nil {
		return h.Close()
	}
	return nil
}

// cutIdle closes all connections once they are idle, or when grace ends.
func (s *Server) cutIdle(grace context.Context, served <-chan struct{}) {
	tick := time.NewTicker(idleTimeout / 8)
	defer tick.Stop()
	var moved uint64
	for idle := time.Now(); ; {
		select {
		case <-served:
			return
		case <-grace.Done():
			s.log.Warn("cutting off requests still in flight", "after", closeTimeout)
			s.cut()
			return
		case now := <-tick.C:
			n := uint64(0)
			for _, l := range s.listeners {
				n += l.Moved()
			}
			if n != moved || s.serving() > 0 {
				moved, idle = n, now
			} else if now.Sub(idle) >= idleTimeout {
				s.log.Info("closing idle connections that did not end by themselves")
				s.cut()
				return
			}
		}
	}
}

// serving counts the calls and requests being served that may be silent for a while.
func (s *Server) serving() (n int) {
	if s.shim != nil {
		n += s.shim.Serving()
	}
	if s.objects != nil {
		n += s.objects.Serving()
	}
	return n
}

func (s *Server) cut() {
	for _, l := range s.listeners {
		l.Cut()
	}
}
