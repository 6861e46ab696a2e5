package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/store/watch"
)

// sharedTxnRows is the default of Config.TxnRows over a shared database.
const sharedTxnRows = 100_000

// Observer observes what the engine does, for metrics. Its methods are called on hot paths and must be cheap.
type Observer interface {
	// Batch reports one committed batch.
	Batch(b Batch)
	// Events reports events handed to a watch stream.
	Events(n int)
	// Purged reports one step of physical compaction: how long it took, what came of it. No two calls overlap.
	Purged(took time.Duration, r backend.PurgeResult)
}

// Batch describes one committed batch.
type Batch struct {
	Operations    int // those answered, failed compares included
	Puts, Deletes int // rows
	Granted       []backend.Lease
	Revoked       int // leases, those that expired included
	ValueBytes    int64
	Commit        time.Duration
}

// Config steers a store; zero fields have the defaults named below.
type Config struct {
	// Name and ClientURLs are what the other replicas over the same database report to their clients about this one.
	Name       string
	ClientURLs []string
	Logger     *slog.Logger
	// ProgressInterval is how often idle watches that asked for it get a progress response; default 5 s.
	ProgressInterval time.Duration
	// QuotaBytes is the size of the database at which the NOSPACE alarm is raised; 0 means 2 GiB, negative none. Of a
	// database that processes share the bytes in use count, as it uses space again rather than giving it back.
	QuotaBytes int64
	// QueueRequests and QueueBytes bound what waits for the sequencer; default 10,000 and 64 MiB.
	QueueRequests int
	QueueBytes    int64
	// TxnRows bounds the rows that one transaction may write or read while it writes; default 1,000,000, and 100,000
	// over a database that processes share, which gives each transaction a few seconds.
	TxnRows int
	// CacheBytes bounds the values kept in memory; default 64 MiB.
	CacheBytes int64
	// WindowBytes bounds the recent events kept in memory for watchers; default 8 MiB.
	WindowBytes int64
	// WatcherBytes bounds what waits for one slow watch before it catches up from the window or the database; default 4
	// MiB.
	WatcherBytes int64
	// WatchBytes bounds what waits for all watches together: beyond it, those catch up whose clients have taken nothing
	// for the longest time; default 32 MiB.
	WatchBytes int64
	// DisableIndex serves every read from the database.
	DisableIndex bool
	// Caller distinguishes callers by their contexts, so that none takes all the turns of long reads. Nil takes them
	// for one.
	Caller func(context.Context) any
	// HangUp ends a caller's connection: it has taken nothing of a long read's result for half a minute, and others
	// wait for the room. Nil lets it keep the memory.
	HangUp func(caller any)
	// MaxStaleness bounds what a linearizable read over a [backend.Shared] may miss when the database has failed over
	// and its old server, which this process still reaches, does not know: only what was acknowledged in the last
	// moments before the read. 0 means
	// 2 s. When it is negative a read misses nothing: it waits for a commit that begins after it came. See
	// [backend.Shared.Confirm].
	MaxStaleness time.Duration
	// Observer may be nil.
	Observer Observer
	// Now is the clock for leases and for how long a stream may hold off row deletion; default time.Now.
	Now func() time.Time

	loadRows int // see the constant
}

func (c Config) withDefaults() Config {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ProgressInterval <= 0 {
		c.ProgressInterval = 5 * time.Second
	}
	if c.MaxStaleness == 0 {
		c.MaxStaleness = defaultStaleness
	}
	if c.QueueRequests == 0 {
		c.QueueRequests = 10_000
	}
	if c.TxnRows == 0 {
		c.TxnRows = 1_000_000
	}
	if c.loadRows == 0 {
		c.loadRows = loadRows
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	def(&c.QuotaBytes, 2<<30)
	def(&c.QueueBytes, 64<<20)
	def(&c.CacheBytes, 64<<20)
	def(&c.WindowBytes, 8<<20)
	def(&c.WatcherBytes, 4<<20)
	def(&c.WatchBytes, 32<<20)
	return c
}

// Store is the engine over one backend.
type Store struct {
	cfg      Config
	backend  backend.Backend
	settings backend.Settings
	epoch    atomic.Int64 // of the history that is published; a replica raises it
	index    *index.Index
	fetcher  *fetcher
	turns    *turns
	counts   counts
	seq      *sequencer
	hub      *watch.Hub
	lessor   leaseKeeper
	peers    peers
	reserve  backend.Reserving // nil when the database has none
	load     loader
	alarms   alarms
	quota    quota
	purging  sync.Mutex // held by the one that deletes rows
	pins     pins
	fault    atomic.Pointer[WriteFault]

	cacheHits, cacheMisses tally

	committing atomic.Pointer[time.Time] // when the commit under way began, nil when there is none

	background background
	ctx        context.Context // of the background work
	batchCtx   context.Context // of batches
	cancel     context.CancelFunc

	failOnce sync.Once
	failed   chan struct{}
	failure  error
}

// Open starts the engine over b. It does not wait for the index: until that is complete, what it lacks is read from the
// database. Errors: those of the backend.
func Open(ctx context.Context, b backend.Backend, cfg Config) (*Store, error) {
	if _, shared := b.(backend.Shared); shared && cfg.TxnRows == 0 {
		cfg.TxnRows = sharedTxnRows
	}
	cfg = cfg.withDefaults()
	settings, err := b.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	clock, batch, err := position(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{cfg: cfg, backend: b, settings: settings, failed: make(chan struct{})}
	s.epoch.Store(clock.Epoch)
	s.reserve, _ = b.(backend.Reserving)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.batchCtx = backend.Urgent(withoutTurn(s.ctx)) // all other writes would wait for the turn
	s.index = index.New(clock, cfg.CacheBytes, cfg.DisableIndex)
	s.turns = newTurns(cfg.Caller, cfg.HangUp)
	s.load.s = s
	s.fetcher = newFetcher(s.ctx, &s.background, b)
	s.seq = newSequencer(s)
	s.hub = s.newHub(clock)
	if err = s.alarms.load(ctx, b); err == nil {
		err = s.openPeers(ctx, batch)
	}
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.quota.s = s
	s.SetQuota(cfg.QuotaBytes)
	go s.seq.run()
	s.load.start()
	s.lessor.start()
	s.peers.start()
	s.background.start(s.hub.Run)
	return s, nil
}

// openPeers makes what depends on whether other processes write to the database.
func (s *Store) openPeers(ctx context.Context, batch int64) (err error) {
	shared, ok := s.backend.(backend.Shared)
	if !ok {
		s.peers = alone{s}
		s.lessor, err = newLessor(ctx, s)
		return err
	}
	r := newReplica(s, shared, batch)
	s.peers, s.lessor = r, r.lessor
	if err := r.beat(ctx); err != nil {
		return fmt.Errorf("become a member: %w", err)
	}
	return nil
}

// Close answers what is in flight, ends the watch streams and stops. It leaves the backend open.
func (s *Store) Close() error {
	s.seq.close()
	s.cancel()
	s.hub.Close()
	s.background.close()
	s.peers.leave()
	return nil
}

// Done is closed when the store cannot write any more: the outcome of a commit is unknown, and only a restart can find
// out.
func (s *Store) Done() <-chan struct{} { return s.failed }

// Err returns why Done was closed.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.cfg.Logger.Error("the store stops writing; restart to find out what was committed", "error", err)
		s.failure = err
		close(s.failed)
	})
}

// Revision returns the revision of the last committed transaction.
func (s *Store) Revision() int64 {
	return s.index.Position().Revision
}

// compacted is the clock's compacted revision as published.
func (s *Store) compacted() int64 {
	return s.index.Position().Compacted
}

// Compacted returns the oldest revision that can be read, 0 when nothing has become unreadable.
func (s *Store) Compacted() int64 {
	return max(0, s.compacted())
}

// Put writes one key. Errors: [ErrKeyNotFound], [ErrLeaseNotFound], [ErrQuota], those of the sequencer.
func (s *Store) Put(ctx context.Context, p *PutRequest) (*PutResult, error) {
	res, err := s.Txn(ctx, &Txn{Success: []Op{{Put: p}}})
	if err != nil {
		return nil, err
	}
	return res.Results[0].Put, nil
}

// Delete deletes the keys of a range. Errors: [ErrTxnTooLarge], those of the sequencer.
func (s *Store) Delete(ctx context.Context, d *DeleteRequest) (*DeleteResult, error) {
	res, err := s.Txn(ctx, &Txn{Success: []Op{{Delete: d}}})
	if err != nil {
		return nil, err
	}
	return res.Results[0].Delete, nil
}

// Txn runs a transaction. Its syntax must have been checked. Errors: [ErrKeyNotFound], [ErrLeaseNotFound],
// [ErrCompacted], [ErrFutureRevision], [ErrQuota], [ErrCorrupt], [ErrTxnTooLarge], those of the sequencer. Nothing is
// applied on an error, unless it says that the outcome is unknown.
func (s *Store) Txn(ctx context.Context, t *Txn) (*TxnResult, error) {
	if t.readOnly() {
		if res, ok, err := s.look(ctx, t); ok {
			return res, err
		}
	}
	op := &txnOperation{txn: t}
	if rows := t.returns(s.index); rows > longRead {
		return s.returning(ctx, op, rows)
	}
	if _, err := s.seq.do(ctx, op); err != nil {
		return nil, err
	}
	return op.result, nil
}

// publish makes rows of a committed batch, all those that are not published yet, visible: first to reads, then to
// watches.
func (s *Store) publish(e *evaluator, rows, prevs []*index.Item) {
	fx := &e.effects
	if len(e.ahead) > 0 {
		s.index.Warm(prevs, e.epoch) // their values have come meanwhile
	}
	s.lessor.granted(fx.Granted)
	s.lessor.ending(fx.Ending)
	s.quota.wrote(fx)
	s.index.Apply(rows, fx.Revision, fx.Compacted)
	s.lessor.revoked(fx.Revoked) // after its keys, so that no key is ever seen without its lease
	s.hub.Publish(rows, prevs, fx.Revision, fx.Compacted)
}
