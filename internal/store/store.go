package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/store/watch"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// sharedTxnRows is the default of Config.TxnRows over a shared database.
const sharedTxnRows = 100_000

// Observer observes the engine, for metrics. The store calls its methods on hot paths, so they must be cheap.
type Observer interface {
	// Batch reports one committed batch.
	Batch(b Batch)
	// Events reports n events handed to a watch stream.
	Events(n int)
	// Purged reports one step of physical compaction: its duration and its result. Calls do not overlap.
	Purged(took time.Duration, r backend.PurgeResult)
}

// Batch describes one committed batch.
type Batch struct {
	Operations    int // answered ones, including failed compares
	Puts, Deletes int // rows
	Granted       []backend.Lease
	Revoked       int // leases, including expired ones
	ValueBytes    int64
	Commit        time.Duration
	Trace         string // the id of a request's trace, "" if no request of the batch is recorded in one
}

const (
	// DefaultQuotaBytes is the default of [Config.QuotaBytes].
	DefaultQuotaBytes = 2 << 30
	// DefaultQueueBytes is the default of [Config.QueueBytes].
	DefaultQueueBytes = 64 << 20
	// DefaultResultBytes is the default of [Config.ResultBytes].
	DefaultResultBytes = 256 << 20
)

// Config configures a store. Zero fields take the defaults named below.
type Config struct {
	// Name and ClientURLs describe this replica: the other replicas over the same database report them to their
	// clients.
	Name       string
	ClientURLs []string
	Logger     *slog.Logger
	// ProgressInterval is how often an idle watch that asked for it gets a progress notify; default 5 s.
	ProgressInterval time.Duration
	// QuotaBytes is the size of the database at which the store raises the NOSPACE alarm; 0 means 2 GiB, negative means
	// no quota. For a database that processes share, only the bytes in use count, because it reuses space instead of
	// giving it back.
	QuotaBytes int64
	// QueueRequests and QueueBytes bound what waits for the sequencer; default 10,000 requests and 64 MiB.
	QueueRequests int
	QueueBytes    int64
	// TxnRows bounds the rows that one transaction may write, or read while it writes. The default is 1,000,000, and
	// 100,000 over a database that processes share, which gives each transaction only a few seconds.
	TxnRows int
	// CacheBytes bounds the value cache; default 64 MiB.
	CacheBytes int64
	// ResultBytes is how many bytes of results may wait for their clients before long reads have to wait, too; default
	// 256 MiB. A result that is larger is read alone.
	ResultBytes int64
	// WindowBytes bounds the recent events kept in memory for watchers; default 8 MiB.
	WindowBytes int64
	// WatcherBytes bounds the backlog of one slow watch; beyond it, the watch catches up from the window or the
	// database. Default 4 MiB.
	WatcherBytes int64
	// WatchBytes bounds the backlogs of all watches together. Beyond it, the watches whose clients have taken nothing
	// for the longest time catch up. Default 32 MiB.
	WatchBytes int64
	// DisableIndex makes the store serve every read from the database.
	DisableIndex bool
	// Loaded is called when the index has all live keys, with their number: after the start, and after each reset. Nil
	// is not called. ctx ends with the store.
	Loaded func(ctx context.Context, revision int64, keys int)
	// Caller identifies the caller of a context, so that no caller gets all the permits of long reads. Nil treats all
	// of them as one caller.
	Caller func(context.Context) any
	// HangUp closes the connection of a caller that receives less than half of a long read's result in ten seconds
	// while others wait for memory. Nil lets the caller keep the memory.
	HangUp func(caller any)
	// MaxStaleness bounds what a linearizable read over a [backend.Shared] may miss after a failover if this process
	// still reaches the old server, which does not know that it was replaced: at most what was acknowledged within this
	// time before the read. 0 means 2 s. If it is negative, a read misses nothing: it waits for a commit that begins
	// after the read arrived. See [backend.Shared.Confirm].
	MaxStaleness time.Duration
	// Observer may be nil.
	Observer Observer
	// Tracer makes the spans of what requests wait for, nil for none.
	Tracer *tracing.Tracer
	// Now is the clock for leases, and for how long a stream may hold off the deletion of rows; default time.Now.
	Now func() time.Time

	loadRows     int           // default: the constant loadRows
	messageBytes int64         // default: the constant messageBytes
	verifyRetry  time.Duration // default: the constant verifyRetry
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
	if c.verifyRetry == 0 {
		c.verifyRetry = verifyRetry
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	def(&c.QuotaBytes, DefaultQuotaBytes)
	def(&c.QueueBytes, DefaultQueueBytes)
	def(&c.CacheBytes, 64<<20)
	def(&c.ResultBytes, DefaultResultBytes)
	def(&c.WindowBytes, 8<<20)
	def(&c.WatcherBytes, 4<<20)
	def(&c.WatchBytes, 32<<20)
	def(&c.messageBytes, messageBytes)
	return c
}

// Store is the engine over one backend.
type Store struct {
	cfg       Config
	backend   backend.Backend
	settings  backend.Settings
	gaps      int64        // up to which revisions may have no rows; see [backend.Import]
	epoch     atomic.Int64 // of the published history; a replica raises it
	index     *index.Index
	fetcher   *fetcher
	admission *admission
	gets      *admission // of single keys whose values are not in memory
	counts    counts
	older     older // of rows
	// olderCounts is likewise for counts.
	olderCounts older
	seq         *sequencer
	hub         *watch.Hub
	lessor      leaseKeeper
	peers       peers
	reserve     backend.Reserving // nil when the backend keeps no reserve
	refusing    backend.Refusing  // nil when the backend never stops accepting writes
	load        loader
	alarms      alarms
	auth        atomic.Pointer[auth.State]
	tokens      tokens
	quota       quota
	purging     sync.Mutex // held while deleting rows
	pins        pins
	fault       atomic.Pointer[WriteFault]
	lastFault   atomic.Pointer[WriteFault] // which a commit does not clear

	corruption   corruption
	verification verification

	cacheHits, cacheMisses tally

	committing atomic.Pointer[time.Time] // when the current commit began, nil when there is none

	background background
	ctx        context.Context // of the background work
	batchCtx   context.Context // of batches
	cancel     context.CancelFunc

	failOnce sync.Once
	failed   chan struct{}
	failure  error
}

// Open starts the engine over b. It does not wait for the index to load: until the index is complete, the store reads
// what is missing from the database. Errors: [backend.ErrImporting], [backend.ErrRestored], those of the backend.
func Open(ctx context.Context, b backend.Backend, cfg Config) (*Store, error) {
	if _, shared := b.(backend.Shared); shared && cfg.TxnRows == 0 {
		cfg.TxnRows = sharedTxnRows
	}
	cfg = cfg.withDefaults()
	settings, err := b.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := restored(b); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	at, err := position(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{cfg: cfg, settings: settings, failed: make(chan struct{})}
	s.corruption.s = s
	s.verification.open(s, b)
	s.backend = s.corruption.guarded(b)
	s.epoch.Store(at.clock.Epoch)
	s.reserve, _ = b.(backend.Reserving)
	s.refusing, _ = b.(backend.Refusing)
	s.ctx, s.cancel = context.WithCancel(auth.With(context.WithoutCancel(ctx), auth.Server))
	s.batchCtx = backend.Urgent(withoutPermit(s.ctx)) // all other writes would wait for a batch's permit
	s.index = index.New(at.clock, cfg.CacheBytes, cfg.DisableIndex)
	s.admission = newAdmission(cfg.ResultBytes, cfg.Caller, cfg.HangUp)
	s.admission.message = cfg.messageBytes
	s.gets = newAdmission(max(1, cfg.ResultBytes/2), cfg.Caller, cfg.HangUp)
	s.load.s, s.older.s, s.olderCounts.s = s, s, s
	s.olderCounts.log = index.Growth
	shared := max(1, min(heldBytes, s.gets.limit/sharedPart))
	s.fetcher = newFetcher(s.ctx, &s.background, s.backend, cfg.Tracer, shared)
	s.seq = newSequencer(s)
	s.hub = s.newHub(at.clock)
	if err = s.alarms.load(ctx, b); err == nil {
		err = s.loadAuth(ctx, b)
	}
	if err == nil {
		err = s.readImport(ctx, b)
	}
	if err == nil {
		err = s.openPeers(ctx, at.batch)
	}
	if err == nil {
		err = s.readImport(ctx, b) // one that began before this process became a member; later ones see the member
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
	s.background.start(s.dropTokens)
	return s, nil
}

// restored returns [backend.ErrRestored] if another program has put the database back to an earlier state. Clients know
// revisions that the store would then give out again, for something else.
func restored(b backend.Backend) error {
	r, ok := b.(backend.Restorable)
	if !ok {
		return nil
	}
	if found := r.Restored(); found.Evidence != "" {
		return fmt.Errorf("%w (%s)", backend.ErrRestored, found.Evidence)
	}
	return nil
}

// readImport reads what was imported. It returns [backend.ErrImporting] while rows of an import are missing.
func (s *Store) readImport(ctx context.Context, b backend.Backend) error {
	i, err := b.Import(ctx)
	if err == nil && i.Source != 0 {
		err = backend.ErrImporting
	}
	s.gaps = i.Gaps
	return err
}

// openPeers creates the parts that depend on whether other processes write to the database.
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

// Close answers the operations in flight, ends the watch streams and stops the store. It leaves the backend open.
func (s *Store) Close() error {
	s.verification.close()
	s.seq.close()
	s.cancel()
	s.hub.Close()
	s.background.close()
	s.peers.leave()
	return nil
}

// Done returns a channel that is closed when the store can no longer write: the outcome of a commit is unknown, and
// only a restart can find out.
func (s *Store) Done() <-chan struct{} { return s.failed }

// Err returns why Done was closed, nil while it is open.
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

// compacted returns the clock's compacted revision as published.
func (s *Store) compacted() int64 {
	return s.index.Position().Compacted
}

// Compacted returns the oldest revision that can be read, 0 when every revision can.
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
	res, err := s.Txn(ctx, &Txn{Success: []Op{{Delete: d}}, message: true})
	if err != nil {
		return nil, err
	}
	return res.Results[0].Delete, nil
}

// Txn runs a transaction. The caller must have checked its syntax. On an error nothing is applied, unless the error
// says that the outcome is unknown. Errors: [ErrKeyNotFound], [ErrLeaseNotFound], [ErrCompacted], [ErrFutureRevision],
// [ErrQuota], [ErrCorrupt], [ErrTxnTooLarge], those of the sequencer.
func (s *Store) Txn(ctx context.Context, t *Txn) (*TxnResult, error) {
	if t.readOnly() {
		if res, ok, err := s.runReadOnly(ctx, t); ok {
			return res, err
		}
	}
	op := &txnOperation{txn: t}
	if rows := t.returns(s.index); rows > 0 {
		return s.returning(ctx, op, rows)
	}
	if _, err := s.seq.do(ctx, op); err != nil {
		return nil, err
	}
	return op.result, nil
}

// publish makes those rows of a committed batch visible that are not published yet, first to reads, then to watches.
func (s *Store) publish(e *evaluator, rows, prevs []*index.Item) {
	fx := &e.effects
	if len(e.ahead) > 0 {
		s.index.Warm(prevs, e.epoch) // ahead reads no values; the index has them by now
	}
	s.lessor.granted(fx.Granted)
	s.lessor.ending(fx.Ending)
	s.quota.wrote(fx)
	s.index.Apply(rows, fx.Revision, fx.Compacted)
	s.lessor.revoked(fx.Revoked) // after its keys, so that no read ever sees a key without its lease
	s.hub.Publish(rows, prevs, fx.Revision, fx.Compacted)
}
