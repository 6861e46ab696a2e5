package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// load is how a phase issues its operations.
type load struct {
	clients int
	span    time.Duration // no operation starts later than this; 0 = until step returns false
	rate    float64       // operations per second in total, 0 = each client as fast as answers arrive
}

var errHangs = errors.New("an operation does not end")

// step performs one operation as one of the clients and checks its answer. It returns false, doing nothing, if there is
// nothing left to do.
type step func(ctx context.Context, client int) (bool, error)

// run issues operations and returns each one's latency and the total time.
func (l load) run(ctx context.Context, do step) (latency []time.Duration, wall time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := l.span + 2*time.Minute
	if l.span == 0 {
		limit = time.Hour // filling kine with 1,000,000 objects
	}
	watchdog := time.AfterFunc(limit, func() { cancel(errHangs) })
	defer watchdog.Stop()
	var (
		wg     sync.WaitGroup
		ticket atomic.Int64
		all    = make([][]time.Duration, l.clients)
		ends   = make([]time.Time, l.clients)
		began  = time.Now()
	)
	for c := range l.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if l.rate > 0 {
					due := began.Add(time.Duration(float64(ticket.Add(1)-1) / l.rate * 1e9))
					if wait := due.Sub(start); wait > 0 && (l.span == 0 || due.Sub(began) < l.span) {
						time.Sleep(wait)
					}
					start = due
				}
				if l.span > 0 && (start.Sub(began) >= l.span || time.Since(began) >= 2*l.span) {
					return // for the second time: the server cannot keep up with the rate
				}
				more, err := do(ctx, c)
				if err != nil {
					cancel(err)
					return
				}
				if !more {
					return
				}
				ends[c] = time.Now()
				all[c] = append(all[c], ends[c].Sub(start))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	for c, a := range all {
		latency = append(latency, a...)
		wall = max(wall, ends[c].Sub(began)) // except the clients that found nothing left
	}
	return latency, wall, nil
}
