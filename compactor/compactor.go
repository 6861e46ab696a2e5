// Package compactor decides when to compact, and paces the deletion of the rows that a compaction leaves behind.
//
// Modes and retention are etcd's: "periodic" keeps the revisions of the last retention, "revision" the last so many. Whoever
// compacts (this package, kube-apiserver, an operator), the rows below go in small steps with a pause after each, as long
// as a multiple of the step itself, so that writes hardly notice.
package compactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/store"
)

// Mode says what a retention counts.
type Mode string

// The modes of --auto-compaction-mode.
const (
	Off      Mode = ""
	Periodic Mode = "periodic"
	Revision Mode = "revision"
)

// ErrConfig is returned for a mode or retention that means nothing.
var ErrConfig = errors.New("bad auto-compaction setting")

const (
	// revisionPeriod is how often the revision mode looks.
	revisionPeriod = 5 * time.Minute
	// stepRows is how many rows one step deletes; restFactor how many times its duration the pause after it is.
	stepRows   = 500
	restFactor = 4
	// stepRest is the shortest pause between two steps.
	stepRest = 5 * time.Millisecond
	// purgePeriod is how often it looks whether there is something to delete.
	purgePeriod = time.Second
	// reclaimPages is how many free pages one step gives back.
	reclaimPages = 256
)

// Config steers a compactor.
type Config struct {
	Mode Mode
	// Retention is a duration or a number of hours for periodic, a number of revisions for revision; "" and "0" are off.
	Retention string
	Logger    *slog.Logger
}

// Check says whether c means something. Errors: [ErrConfig].
func (c Config) Check() error {
	_, err := New(nil, c)
	return err
}

// Engine is what a compactor needs of a store.
type Engine interface {
	Revision() int64
	Compacted() int64
	Compact(ctx context.Context, revision int64, physical bool) (int64, error)
	PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error)
	Reclaim(ctx context.Context, pages int) (done bool, err error)
}

// Compactor runs in the background of one server.
type Compactor struct {
	engine    Engine
	mode      Mode
	period    time.Duration // periodic
	revisions int64         // revision
	log       *slog.Logger
}

// New checks cfg. Errors: [ErrConfig].
func New(e Engine, cfg Config) (*Compactor, error) {
	c := &Compactor{engine: e, mode: cfg.Mode, log: cfg.Logger}
	if cfg.Retention == "" || cfg.Retention == "0" || cfg.Mode == Off {
		c.mode = Off
		if cfg.Mode != Off && cfg.Mode != Periodic && cfg.Mode != Revision {
			return nil, fmt.Errorf("%w: mode %q is neither periodic nor revision", ErrConfig, cfg.Mode)
		}
		return c, nil
	}
	number, numeric := strconv.ParseInt(cfg.Retention, 10, 64)
	switch cfg.Mode {
	case Periodic:
		c.period = time.Duration(number) * time.Hour
		if numeric != nil {
			d, err := time.ParseDuration(cfg.Retention)
			if err != nil {
				return nil, fmt.Errorf("%w: retention %q is neither a duration nor a number of hours", ErrConfig, cfg.Retention)
			}
			c.period = d
		}
		if c.period <= 0 {
			return nil, fmt.Errorf("%w: retention %q is not positive", ErrConfig, cfg.Retention)
		}
	case Revision:
		if numeric != nil || number <= 0 {
			return nil, fmt.Errorf("%w: retention %q is not a positive number of revisions", ErrConfig, cfg.Retention)
		}
		c.revisions = number
	default:
		return nil, fmt.Errorf("%w: mode %q is neither periodic nor revision", ErrConfig, cfg.Mode)
	}
	return c, nil
}

// Run compacts and deletes until ctx ends.
func (c *Compactor) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.purge(ctx)
	}()
	switch c.mode {
	case Periodic:
		c.runPeriodic(ctx)
	case Revision:
		c.runRevision(ctx)
	case Off:
	}
	<-done
}

// runPeriodic samples the revision ten times a retention (at most once an hour) and compacts to what was current a retention ago.
func (c *Compactor) runPeriodic(ctx context.Context) {
	every := min(c.period, time.Hour) / 10
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	h := history{keep: c.period, every: min(c.period, time.Hour)}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if rev := h.sample(now, c.engine.Revision()); rev > 0 {
				c.compact(ctx, rev)
			}
		}
	}
}

// history remembers which revision was current when.
type history struct {
	keep  time.Duration
	every time.Duration // between two compactions
	seen  []sample
	last  time.Time
}

type sample struct {
	at  time.Time
	rev int64
}

// sample records that rev is current and returns the revision to compact to now, 0 for none.
func (h *history) sample(now time.Time, rev int64) int64 {
	h.seen = append(h.seen, sample{now, rev})
	cut := now.Add(-h.keep)
	n := 0
	for n < len(h.seen) && !h.seen[n].at.After(cut) {
		n++
	}
	if n == 0 || now.Sub(h.last) < h.every && !h.last.IsZero() {
		return 0
	}
	target := h.seen[n-1].rev
	h.seen = append(h.seen[:0], h.seen[n-1:]...)
	h.last = now
	return target
}

func (c *Compactor) runRevision(ctx context.Context) {
	tick := time.NewTicker(revisionPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.compact(ctx, c.engine.Revision()-c.revisions)
		}
	}
}

func (c *Compactor) compact(ctx context.Context, rev int64) {
	if rev <= 0 || rev <= c.engine.Compacted() {
		return
	}
	_, err := c.engine.Compact(ctx, rev, false)
	switch {
	case err == nil:
		c.log.Info("compacted", "revision", rev)
	case errors.Is(err, store.ErrCompacted), ctx.Err() != nil:
	default:
		c.log.Error("compaction failed, it is tried again at the next period", "revision", rev, "error", err)
	}
}

// purge deletes what compactions leave behind and gives free space back.
func (c *Compactor) purge(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	through := int64(-1) // the compacted revision whose rows are gone
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		compacted := c.engine.Compacted()
		if compacted == through {
			timer.Reset(purgePeriod)
			continue
		}
		began := time.Now()
		done, err := c.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Error("rows below the compacted revision are not deleted yet", "compacted", compacted, "error", err)
			timer.Reset(purgePeriod)
			continue
		case done:
			through = compacted
		}
		timer.Reset(max(restFactor*time.Since(began), stepRest))
	}
}

// step deletes some rows or, when there are none left, gives some space back.
func (c *Compactor) step(ctx context.Context) (done bool, err error) {
	res, err := c.engine.PurgeStep(ctx, stepRows)
	if err != nil || !res.Done {
		return false, err
	}
	return c.engine.Reclaim(ctx, reclaimPages)
}
