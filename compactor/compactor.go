// Package compactor decides when to compact, and paces the deletion of the rows that a compaction leaves behind.
//
// Modes and retention are etcd's: "periodic" keeps the revisions of the retention period, "revision" keeps that many
// revisions. No matter who compacts (this package, kube-apiserver, an operator), the superseded rows are deleted in
// small steps with pauses, so that writes are hardly affected; the type pace has the details. A small random delay
// keeps servers that were started together from compacting at the same time: more than the retention may be kept, never
// less.
//
// If several replicas share a database, the leader does both. The others record past revisions, so that a new leader
// immediately knows which revision to compact to. The database records the progress of the deletion, and a new leader
// continues from there.
//
// As in etcd, the record of which revision was current when exists only in memory. After a restart of all processes it
// starts over, and a lone process that never runs for a whole retention never compacts. If you restart servers that
// often, count revisions instead, or let kube-apiserver compact, which keeps its times in the store.
package compactor

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// Mode selects what a retention counts.
type Mode string

// The modes.
const (
	Off      Mode = ""
	Periodic Mode = "periodic"
	Revision Mode = "revision"
)

// ErrConfig is returned for an invalid mode or retention.
var ErrConfig = errors.New("bad auto-compaction setting")

// Config configures a compactor.
type Config struct {
	Mode Mode
	// Retention is a duration or a number of hours in periodic mode, and a number of revisions in revision mode. "" and
	// "0" turn compaction off.
	Retention string
	// Logger may be nil. Logger and Jitter are fixed by New.
	Logger *slog.Logger
	// Jitter returns a delay from 0 to below most; nil means a random one.
	Jitter func(most time.Duration) time.Duration
}

// Check reports whether c is valid. Errors: [ErrConfig].
func (c Config) Check() error {
	_, err := c.settings()
	return err
}

// Engine is what a compactor needs from a store.
type Engine interface {
	// Leads reports whether this process does the work that only one of the processes sharing a database does. It may
	// change at any time.
	Leads() bool
	// Epoch changes when history was lost: the recorded times of revisions no longer apply then.
	Epoch() int64
	Revision() int64
	Compacted() int64
	Compact(ctx context.Context, revision int64, physical bool) (int64, error)
	PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error)
	Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error)
	// Readers describes, in human-readable form, who in this process keeps rows from being deleted; "" means nobody.
	Readers() string
}

// Compactor runs in the background of one server.
type Compactor struct {
	engine  Engine
	log     *slog.Logger
	jitter  func(time.Duration) time.Duration
	changed chan struct{} // has capacity one: the settings have changed
	outages struct{ schedule, purge loglimit.Outage }

	mu        sync.Mutex // held only briefly
	settings  settings
	automatic automatic
	purging   purging
}

// New returns a Compactor for e, which does nothing until Run is called. Errors: [ErrConfig] if cfg is not valid.
func New(e Engine, cfg Config) (*Compactor, error) {
	s, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	c := &Compactor{engine: e, log: cfg.Logger, jitter: cfg.Jitter, changed: make(chan struct{}, 1), settings: s}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.jitter == nil {
		c.jitter = func(most time.Duration) time.Duration { return time.Duration(rand.Float64() * float64(most)) }
	}
	c.purging.through = unknown
	return c, nil
}

// Set applies a new mode and retention, and keeps the record of past revisions. Errors: [ErrConfig].
func (c *Compactor) Set(cfg Config) error {
	s, err := cfg.settings()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == c.settings {
		return nil
	}
	c.settings = s
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

// Run compacts and deletes superseded rows until ctx ends.
func (c *Compactor) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.purge(ctx) })
	c.schedule(ctx)
	wg.Wait()
}
