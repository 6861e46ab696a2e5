// Package compactor decides when to compact, and paces the deletion of the rows that a compaction leaves behind.
//
// Modes and retention are etcd's: "periodic" keeps the revisions of the last retention, "revision" the last so many. Whoever
// compacts (this package, kube-apiserver, an operator), the rows below go in small steps with a rest after each, so that
// writes hardly notice; the type pace says how. Each time is put off by a little at random, so that servers that were started
// together do not compact in step: more than the retention may be kept, never less.
//
// Of several replicas over one database the one that leads does both; the others note the revisions of the past, so that whoever
// takes over knows at once what to compact to. How far the deletion came is in the database, so that whoever
// leads next goes on from there.
//
// Which revision was current when is known to processes only, as in etcd: one that starts alone begins to count anew, and one that
// never lives for a whole retention never compacts. Whoever restarts servers that often counts revisions, or has
// kube-apiserver compact, which keeps its times in the store.
package compactor

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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
	// Logger may be nil. It and Jitter are those of New for good.
	Logger *slog.Logger
	// Jitter returns by how much something is put off, from 0 to below most; nil for a random time.
	Jitter func(most time.Duration) time.Duration
}

// Check says whether c means something. Errors: [ErrConfig].
func (c Config) Check() error {
	_, err := c.settings()
	return err
}

// Engine is what a compactor needs of a store.
type Engine interface {
	// Leads says whether this process does what one of those that share a database does. It may change at any time.
	Leads() bool
	// Incarnation changes when history was lost: revisions have other times then.
	Incarnation() int64
	Revision() int64
	Compacted() int64
	Compact(ctx context.Context, revision int64, physical bool) (int64, error)
	PurgeStep(ctx context.Context, rows int) (backend.PurgeResult, error)
	Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error)
	// Readers tells for people who, in this process, keeps rows from being deleted; "" for nobody.
	Readers() string
}

// Compactor runs in the background of one server.
type Compactor struct {
	engine  Engine
	log     *slog.Logger
	jitter  func(time.Duration) time.Duration
	changed chan struct{} // has room for one; the settings are others

	mu        sync.Mutex // held for moments only
	settings  settings
	automatic automatic
	purging   purging
}

// New checks cfg. Errors: [ErrConfig].
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

// Set puts another mode and retention into force. What is known of the past stays known. Errors: [ErrConfig].
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

// Run compacts and deletes until ctx ends.
func (c *Compactor) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.purge(ctx) })
	c.schedule(ctx)
	wg.Wait()
}
