// Package compactor decides when to compact, and paces the deletion of the rows that a compaction leaves behind.
//
// Modes and retention are etcd's: "periodic" keeps the revisions of the last retention, "revision" the last so many. Whoever
// compacts (this package, kube-apiserver, an operator), the rows below go in small steps with a pause after each, as long
// as a multiple of the step itself, so that writes hardly notice.
//
// Of several replicas over one database the one that leads does both; the others note the revisions of the past, so that whoever
// takes over knows at once what to compact to.
package compactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
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
	// Leads says whether this process does what one of those that share a database does. It may change at any time.
	Leads() bool
	Revision() int64
	Compacted() int64
	Compact(ctx context.Context, revision int64, physical bool) (int64, error)
	PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error)
	Reclaim(ctx context.Context, pages int) (done bool, err error)
}

// Compactor runs in the background of one server.
type Compactor struct {
	engine    Engine
	period    time.Duration // periodic
	revisions int64         // revision
	log       *slog.Logger
}

// New checks cfg. Errors: [ErrConfig].
func New(e Engine, cfg Config) (*Compactor, error) {
	c := &Compactor{engine: e, log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	retention := cfg.Retention
	if retention == "" {
		retention = "0"
	}
	var err error
	switch cfg.Mode {
	case Off:
	case Periodic:
		c.period, err = parsePeriod(retention)
	case Revision:
		c.revisions, err = strconv.ParseInt(retention, 10, 64)
		if err != nil || c.revisions < 0 {
			err = fmt.Errorf("%w: retention %q is not a number of revisions", ErrConfig, retention)
		}
	default:
		err = fmt.Errorf("%w: mode %q is neither periodic nor revision", ErrConfig, cfg.Mode)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// parsePeriod reads a duration; a mere number counts hours.
func parsePeriod(s string) (time.Duration, error) {
	if hours, err := strconv.ParseInt(s, 10, 64); err == nil {
		if hours < 0 || hours > math.MaxInt64/int64(time.Hour) {
			return 0, fmt.Errorf("%w: retention %q is not a possible number of hours", ErrConfig, s)
		}
		return time.Duration(hours) * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%w: retention %q is neither a duration nor a number of hours", ErrConfig, s)
	}
	return d, nil
}

// Run compacts and deletes until ctx ends.
func (c *Compactor) Run(ctx context.Context) {
	var purging sync.WaitGroup
	purging.Go(func() { c.purge(ctx) })
	switch {
	case c.period > 0:
		c.runPeriodic(ctx)
	case c.revisions > 0:
		c.runRevision(ctx)
	}
	purging.Wait()
}
