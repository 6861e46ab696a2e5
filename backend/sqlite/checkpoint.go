package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// walLimit is the size of the WAL in bytes at which it starts again from its beginning. The more it holds, the more
	// seldom the writer waits for that.
	walLimit = 64 << 20
	// restLimit is how many bytes may be left to be copied while the writer waits, unless they are still more after so
	// many rounds of copying beside it.
	restLimit = 256 << 10
	rounds    = 4

	// restartAgain is how many bytes are added to the WAL after a restart that readers prevented, before the next one.
	restartAgain = 4 << 20

	// scarce is the free space in bytes below which a WAL of walLimit is too much, scarceShare the part of the reserve
	// that it may have then, since it grows to twice its limit while it is copied, and scarceLeast what it may have
	// beside any reserve.
	scarce      = 4 * walLimit
	scarceShare = 4
	scarceLeast = 4 << 20

	// idleRest is after how long without a wake what a round has left is copied.
	idleRest = time.Second
	// restartTimeout is how long the writer stands still for those who read from the end of the WAL.
	restartTimeout = "50" // milliseconds
)

// profiles are the load profiles, by the average number of rows in a commit, which shows how much writers wait for each
// other anyway. What a round of copying leaves for the disk delays the syncs of the commits beside it: of a program
// that does nothing else, the slowest percent of syncs took 1.3 ms beside 15 pages every 3 ms, and 3.3 beside 60 every
// 12 ms. But each round costs a sync of the log, and many small ones write more pages.
var profiles = [...]struct {
	rows  float64       // a commit has, at least
	every int64         // bytes are written, by a rough count, between two rounds
	rest  time.Duration // and so much time goes by, at least

	atLimit   bool // a round copies only when the WAL is at its limit
	writeBack bool // each round has the disk begin to write what it copied
}{
	// What gathers until the WAL starts again is one long sync, which commits wait for.
	alone:   {every: 64 << 10, rest: 2 * time.Millisecond, writeBack: true},
	several: {rows: 1.5, every: 256 << 10, rest: 10 * time.Millisecond},
	// The least work counts, and nothing is copied before the WAL is at its limit: the more it holds, the more often a
	// page in it is newer than another copy of itself, which need not be copied. 18 us of CPU a row at 4 MiB, 16 at 64,
	// and no less beyond. A round only looks at the WAL's real size.
	many: {rows: 8, every: 4 << 20, rest: 10 * time.Millisecond, atLimit: true},
}

const (
	alone = iota
	several
	many
)

// checkpointer copies the WAL into the database, off the path of commits.
type checkpointer struct {
	b      *Backend
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	limit int64     // walLimit, but in tests
	noted time.Time // when the checkpointer last noted what the file holds

	mu sync.Mutex
	// bound is how many bytes the WAL may be ahead of the file: walLimit, or less on a disk that is nearly full.
	bound int64
	// written is about how many bytes were written since the last wake, or since copying began; rows and commits are
	// what has been written since the last wake.
	written       int64
	rows, commits int
	profile       int // of profiles, as found at the last wake

	restartAt int64 // size of the WAL at which it is to start again
	stall     stall
	// copied is closed when the copying that is under way has ended, nil when there is none.
	copied chan struct{}
}

func startCheckpointer(b *Backend) *checkpointer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &checkpointer{
		b: b, limit: walLimit, bound: walLimit, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
	}
	go p.run(ctx)
	return p
}

// stop ends the checkpointer and waits for it.
func (p *checkpointer) stop() {
	p.cancel()
	<-p.done
}

// wrote counts what a commit has added. A row in a random place of the key order dirties an index page of its own.
func (p *checkpointer) wrote(e *backend.Effects) {
	n := 4 * p.b.pageSize
	for i := range e.Rows {
		n += int64(len(e.Rows[i].Value)) + p.b.pageSize
	}
	p.add(n, len(e.Rows), 1)
}

// removed counts what a purge has added: the table and the index lose an entry, in places that may all differ.
func (p *checkpointer) removed(rows int) { p.add(int64(rows)*2*p.b.pageSize, 0, 0) }

func (p *checkpointer) add(bytes int64, rows, commits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written, p.rows, p.commits = p.written+bytes, p.rows+rows, p.commits+commits
	if p.copied == nil && p.written >= min(profiles[p.profile].every, p.bound) {
		p.written = 0
		p.poke()
	}
}

// judge finds the load profile of the commits since the last wake.
func (p *checkpointer) judge() (profile int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for profile = many; profile > alone &&
		(p.commits == 0 || float64(p.rows) < profiles[profile].rows*float64(p.commits)); {
		profile--
	}
	p.profile, p.rows, p.commits = profile, 0, 0
	return profile
}

// poke has the WAL looked at soon.
func (p *checkpointer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// keepUp makes a writer wait while copying cannot keep up with it.
func (p *checkpointer) keepUp(ctx context.Context) error {
	p.mu.Lock()
	copied, behind := p.copied, p.copied != nil && p.written >= p.bound
	p.mu.Unlock()
	if !behind {
		return nil
	}
	select {
	case <-copied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.b.closing:
		return backend.ErrClosed
	}
}

func (p *checkpointer) run(ctx context.Context) {
	defer close(p.done)
	c, err := connect(p.b.path, "synchronous = "+p.b.synchronous(), "wal_autocheckpoint = 0",
		"busy_timeout = "+restartTimeout)
	if err != nil {
		_ = p.b.breakDown("open the checkpointing connection", err)
		return
	}
	defer func() {
		if err := c.close(); err != nil {
			p.b.log.Warn("close the checkpointing connection", "error", err)
		}
	}()
	rest := time.NewTimer(0)
	defer rest.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-again:
		}
		profile := p.judge()
		if again = nil; p.once(ctx, c, profile) {
			again = time.After(idleRest)
		}
		rest.Reset(profiles[profile].rest)
	}
}

// once copies what is in the WAL, and has it start again when it is large. It returns whether something was left.
func (p *checkpointer) once(ctx context.Context, c *conn, profile int) (left bool) {
	if p.b.broken.Load() != nil {
		return false // nothing is synced again
	}
	limit := p.fit()
	if profiles[profile].atLimit {
		if w, ok := p.checkpoint(c, "NOOP"); !ok || w.total < limit {
			return true
		}
	}
	copied := make(chan struct{})
	p.copying(copied)
	defer close(copied)
	defer p.copying(nil)
	revision, due := p.holds()
	w, ok := p.checkpoint(c, "PASSIVE")
	if ok && due && w.copied == w.total {
		p.note(c, revision)
	}
	if ok && p.stall.observe(p.b, w, time.Now()) {
		p.restartAt = 0
	}
	if profiles[profile].writeBack && p.b.synchronous() != "OFF" {
		beginWriteBack(p.b.file)
	}
	if !ok || w.total < max(p.restartAt, limit) || p.stall.lasts(time.Now()) > 0 {
		return !ok || w.copied < w.total || p.news()
	}
	// A WAL that is always being added to never starts again by itself, so what little has come meanwhile is copied
	// while the writer waits. SQLite syncs the database when all is copied; what it finds synced does not keep the
	// writer waiting.
	for range rounds {
		if !p.sync() {
			return true
		}
		if w, ok = p.checkpoint(c, "NOOP"); !ok || w.total-w.copied <= restLimit {
			break
		}
		if _, ok = p.checkpoint(c, "PASSIVE"); !ok {
			return true
		}
	}
	if p.b.takeTurnNow(ctx) != nil {
		return true
	}
	defer p.b.giveTurn()
	mode := "RESTART"
	if log, err := p.b.logSize(); err == nil && log > 0 {
		mode = "TRUNCATE" // what it has grown to while it could not begin anew is given back
	}
	w, ok = p.checkpoint(c, mode)
	if p.restartAt = 0; ok && w.busy {
		p.restartAt = w.total + restartAgain // the writer is not to stand still again at once
	}
	return !ok || w.busy
}

// fit returns the size at which the WAL starts again. While the disk is nearly full the WAL stays so small that the
// reserve has room for all of it in the file: one that cannot be copied cannot start again, and deletes need it to.
func (p *checkpointer) fit() (limit int64) {
	bound := int64(walLimit)
	if r := p.b.reserve; r != nil {
		if free, err := freeBytes(filepath.Dir(r.path)); err == nil && free < scarce {
			bound = min(bound, max(r.size/scarceShare, scarceLeast))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = bound
	return min(p.limit, bound)
}

func (p *checkpointer) copying(copied chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copied = copied; copied != nil {
		p.written = 0
	}
}

// news says whether something was written since the round began.
func (p *checkpointer) news() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written > 0
}

// wal is what is in the WAL, in bytes; busy says that somebody reads what was to be overwritten.
type wal struct {
	total, copied int64
	busy          bool
}

func (p *checkpointer) checkpoint(c *conn, mode string) (w wal, ok bool) {
	n, err := c.queryInts("PRAGMA wal_checkpoint(" + mode + ")")
	if err != nil || len(n) != 3 {
		p.failed(err)
		return wal{}, false
	}
	return wal{n[1] * p.b.pageSize, n[2] * p.b.pageSize, n[0] != 0}, true
}

// sync has the disk take what was copied.
func (p *checkpointer) sync() bool {
	if p.b.synchronous() == "OFF" {
		return true
	}
	err := p.b.file.Sync()
	if err != nil {
		// Nothing may be written as if all were well. Linux reports the error once to each descriptor, so the sync with
		// which SQLite would close the file and drop the WAL fails as well.
		_ = p.b.breakDown("sync the database", err)
	}
	return err == nil
}

func (p *checkpointer) failed(err error) {
	if err != nil {
		p.b.reserve.full(err)
		// Unless this has ended all writing: the WAL stays as it is, and the next look tries again.
		p.b.log.Warn("checkpoint failed", "path", p.b.path, "error", p.b.syncError("checkpoint", err))
	}
}
