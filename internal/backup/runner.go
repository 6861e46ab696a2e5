package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// Engine is what a [Runner] needs from a store.
type Engine interface {
	// Leads reports whether this process does the work that only one of the processes sharing a database does.
	Leads() bool
	Revision() int64
	Compacted() int64
	Auth() *auth.State
	Export(ctx context.Context) (*store.Export, error)
	ExportRows(ctx context.Context) (*store.Export, error)
}

// Config configures a [Runner].
type Config struct {
	Repository *Repository
	// Interval is how often changes are saved, FullInterval how often a new chain begins, and Keep how far back every
	// point can be restored.
	Interval, FullInterval, Keep time.Duration
	// Version is that of sqlstore.
	Version string
	Logger  *slog.Logger
}

// refresh is how often a store that does not change is asked whether it really does not, and all leases are read.
const refresh = time.Minute

const (
	// lastTimeout is how long the end waits for the last changes.
	lastTimeout = 5 * time.Second
	// holdLimit is how long rows that cannot be saved are kept from being deleted: the store must not fill its disk
	// because the bucket is away. It is as long as other replicas keep them.
	holdLimit = 30 * time.Minute
	// retryFull is how long after a full backup that failed the next one begins.
	retryFull = time.Minute
)

// Runner backs up the store of one server. Of several replicas, the leader does it.
type Runner struct {
	engine Engine
	cfg    Config
	log    *slog.Logger

	// Only Run uses these.
	chain    *chain             // nil: not known, or a full backup has to come first
	asked    bool               // for a chain to continue
	exported time.Time          // the last time that the store was asked
	full     chan fullResult    // nil unless one is being written
	stopFull context.CancelFunc // of that one
	failed   time.Time          // the last time that a full backup failed

	background sync.WaitGroup // deletes old backups

	mu    sync.Mutex
	state State
}

type fullResult struct {
	chain *chain
	err   error
}

// New returns a runner for [Runner.Run].
func New(engine Engine, cfg Config) *Runner {
	return &Runner{engine: engine, cfg: cfg, log: cfg.Logger, state: State{Since: time.Now()}}
}

// Intervals are how often changes are saved, and how often a full backup begins.
func (r *Runner) Intervals() (changes, full time.Duration) { return r.cfg.Interval, r.cfg.FullInterval }

// Run backs up the store until ctx ends. It then saves the last changes, if that takes no longer than lastTimeout.
func (r *Runner) Run(ctx context.Context) {
	ctx = auth.With(ctx, auth.Server)
	defer r.background.Wait()
	defer r.drop()
	for wait := time.NewTimer(0); ; wait.Reset(r.cfg.Interval) {
		select {
		case <-ctx.Done():
			r.last(ctx)
			return
		case res := <-r.full:
			r.finished(ctx, res)
		case <-wait.C:
		}
		if !r.engine.Leads() {
			r.drop()
			r.follow()
			continue
		}
		began := time.Now()
		r.report(ctx, began, r.step(ctx))
	}
}

// last saves the last changes.
func (r *Runner) last(ctx context.Context) {
	if r.chain == nil || !r.engine.Leads() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer stop()
	if err := r.changes(ctx); err != nil {
		r.log.Warn("what was committed last is not in the backup", "saved-revision", r.chain.through, "error", err)
	}
}

// drop forgets everything, because another replica may go on.
func (r *Runner) drop() {
	if r.full != nil {
		r.stopFull()
		if res := <-r.full; res.chain != nil {
			res.chain.close()
		}
		r.full = nil
	}
	if r.chain != nil {
		r.chain.close()
	}
	r.chain, r.asked = nil, false
}

// step saves what has changed, and begins a new chain if it is time.
func (r *Runner) step(ctx context.Context) error {
	if r.chain == nil && !r.asked {
		if err := r.resume(ctx); err != nil {
			return err
		}
	}
	var err error
	if r.chain != nil {
		if err = r.changes(ctx); errors.Is(err, errOtherHistory) {
			r.log.Warn("a new full backup begins, because the last backup cannot go on", "chain", r.chain.name,
				"reason", err)
			r.chain.close()
			r.chain, err = nil, nil
		}
	}
	if r.full == nil && (r.chain == nil || time.Since(r.chain.began) >= r.cfg.FullInterval) &&
		time.Since(r.failed) >= retryFull {
		return errors.Join(err, r.begin(ctx))
	}
	return err
}

// resume finds the chain to continue.
func (r *Runner) resume(ctx context.Context) error {
	x, err := r.engine.Export(ctx)
	if err != nil {
		return err
	}
	defer x.Close()
	c, err := r.cfg.Repository.resume(ctx, x)
	switch {
	case errors.Is(err, errOtherHistory), errors.Is(err, ErrDamaged), errors.Is(err, ErrNewer):
		r.log.Warn("a new full backup begins, because the last backup cannot go on", "reason", err)
	case err != nil:
		return err
	case c != nil:
		r.log.Info("continuing the last backup", "chain", c.name, "revision", c.through)
	}
	r.chain, r.asked = c, true
	return nil
}

// changes saves what was committed since the last time.
func (r *Runner) changes(ctx context.Context) error {
	c := r.chain
	ctx, stop := context.WithTimeout(ctx, holdLimit)
	defer stop()
	if err := r.cfg.Repository.find(ctx, c); err != nil {
		r.release(c)
		return err
	}
	if c.export != nil && r.engine.Revision() == c.through && r.engine.Auth().Revision() == c.authRevision &&
		r.engine.Compacted() == c.export.Compacted && time.Since(r.exported) < refresh {
		return nil
	}
	began := time.Now() // everything committed before is in the export
	export := r.engine.Export
	if c.known != nil && began.Sub(c.listed) < refresh {
		export = r.engine.ExportRows
	}
	x, err := export(ctx)
	if err != nil {
		return err
	}
	name, footer, err := r.cfg.Repository.changes(ctx, c, x, r.cfg.Version, milliseconds(began))
	if err != nil {
		x.Close()
		r.release(c)
		return err
	}
	r.exported = began
	if name.Chain != "" {
		r.log.Debug("saved changes", "file", name.String(), "rows", footer.Rows, "took", time.Since(began))
		r.wrote(footer, false)
	}
	return nil
}

// release lets the rows of a chain be deleted if they could not be saved for too long. The chain goes on if they are
// not compacted by then.
func (r *Runner) release(c *chain) {
	if c.export == nil || time.Since(c.since) < holdLimit {
		return
	}
	r.log.Warn("what is not in the backup is no longer kept from deletion when it is compacted: it waited too long",
		"saved-revision", c.through, "limit", holdLimit)
	c.close()
}

// begin begins a full backup beside the changes.
func (r *Runner) begin(ctx context.Context) error {
	at := milliseconds(time.Now())
	x, err := r.engine.Export(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	result := make(chan fullResult, 1)
	r.full, r.stopFull = result, stop
	r.log.Info("a full backup begins", "revision", x.Revision)
	r.beginFull(at)
	go func() {
		defer stop()
		c, err := r.writeFull(ctx, x, at)
		result <- fullResult{c, err}
	}()
	return nil
}

// writeFull writes a full backup of x, and returns a chain that keeps x.
func (r *Runner) writeFull(ctx context.Context, x *store.Export, at time.Time) (*chain, error) {
	mine := func(chain string) bool { return ofStore(chain, x.Settings.ClusterID) }
	if err := r.cfg.Repository.clean(mine); err != nil {
		r.log.Warn("what full backups that were killed have left cannot be removed", "error", err)
	}
	name, footer, err := r.cfg.Repository.full(ctx, exported(ctx, x, r.cfg.Version, at))
	if err != nil {
		x.Close()
		return nil, err
	}
	r.wrote(footer, true)
	r.log.Info("a full backup is complete", "file", name.String(), "rows", footer.Rows, "bytes", footer.Bytes, "took",
		time.Since(at))
	c := &chain{
		name: name.Chain, full: name, seen: time.Now(), began: at, epoch: x.Epoch, through: x.Revision,
		tail: footer.Tail, authRevision: x.Auth.Revision(), export: x, since: time.Now(),
		known: map[int64]time.Duration{}, listed: at,
	}
	for _, l := range x.Leases {
		c.known[l.ID] = l.Granted
	}
	return c, nil
}

// finished takes over a chain that a full backup has begun, and deletes those that nobody needs any more.
func (r *Runner) finished(ctx context.Context, res fullResult) {
	r.full = nil
	r.endFull(res.err)
	if res.err != nil {
		r.failed = time.Now()
		r.report(ctx, r.failed, fmt.Errorf("full backup: %w", res.err))
		return
	}
	if r.chain != nil {
		r.chain.close()
	}
	r.chain = res.chain
	id := res.chain.export.Settings.ClusterID
	r.background.Go(func() { r.prune(ctx, id) })
}

// prune deletes the chains of this store that are older than what is kept.
func (r *Runner) prune(ctx context.Context, clusterID uint64) {
	removed, err := r.cfg.Repository.prune(ctx, time.Now().Add(-r.cfg.Keep), func(chain string) bool {
		return ofStore(chain, clusterID)
	})
	for _, c := range removed {
		r.log.Info("deleted a backup that is older than what is kept", "chain", c.Name)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("old backups could not be deleted; the next full backup tries again", "error", err)
	}
}

func milliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
