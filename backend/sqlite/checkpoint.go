package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
)

const (
	// walLimit is the size of the WAL in bytes at which it starts again from its beginning. The larger it is, the less
	// often the writer waits for that.
	walLimit = 64 << 20
	// restLimit is how many bytes may be left to copy while the writer waits, unless more are still left after this
	// number of rounds of copying concurrently with it.
	restLimit = 256 << 10
	rounds    = 4

	// restartAgain is how many bytes must be added to the WAL, after readers prevented a restart, before the next
	// attempt.
	restartAgain = 4 << 20

	// scarce is the free space in bytes below which a WAL of walLimit is too much. scarceShare is the part of the
	// reserve, one in this many, that the WAL may then take, because it grows to twice its limit while it is copied.
	// scarceLeast is what it may take in bytes however small the reserve is.
	scarce      = 4 * walLimit
	scarceShare = 4
	scarceLeast = 4 << 20

	// idleRest is the time without a wake after which the checkpointer copies what a round has left.
	idleRest = time.Second
	// restartTimeout is how long the writer is blocked waiting for readers of the end of the WAL.
	restartTimeout = "50" // milliseconds
)

// profiles are the load profiles, by the average number of rows in a commit, which shows how much writers wait for each
// other anyway. The pages that a round of copying leaves for the disk delay the syncs of concurrent commits: in a
// program that does nothing else, the slowest percent of syncs took 1.3 ms next to 15 pages every 3 ms, and 3.3 ms next
// to 60 pages every 12 ms. But each round costs a sync of the log, and many small rounds write more pages.
var profiles = [...]struct {
	rows  float64       // minimum average per commit
	every int64         // bytes written between two rounds, estimated
	rest  time.Duration // minimum time between two rounds

	atLimit   bool // a round copies only when the WAL is at its limit
	writeBack bool // after each round the disk starts writing what it copied
}{
	// What accumulates until the WAL starts again would take one long sync, which commits wait for.
	alone:   {every: 64 << 10, rest: 2 * time.Millisecond, writeBack: true},
	several: {rows: 1.5, every: 256 << 10, rest: 10 * time.Millisecond},
	// The goal is the least work, so nothing is copied before the WAL reaches its limit: the more it holds, the more
	// often a page in it supersedes an older copy, which then need not be copied. A row costs 18 us of CPU at 4 MiB, 16
	// us at 64 MiB, and no less beyond. Before that, a round only checks the WAL's real size.
	many: {rows: 8, every: 4 << 20, rest: 10 * time.Millisecond, atLimit: true},
}

const (
	alone = iota
	several
	many
)

// checkpointer copies the WAL into the database, outside the commit path.
type checkpointer struct {
	b      *Backend
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	limit int64     // walLimit, except in tests
	noted time.Time // when the checkpointer last wrote a note

	outage, noting loglimit.Outage // of rounds, and of notes

	mu sync.Mutex
	// bound is how many bytes the WAL may be ahead of the file: walLimit, or less on a disk that is nearly full.
	bound int64
	// written is the approximate number of bytes written since the last wake, or since copying began. rows and commits
	// count what was written since the last wake.
	written       int64
	rows, commits int
	profile       int // index into profiles, as determined at the last wake

	restartAt int64 // size of the WAL at which the next restart is attempted
	stall     stall
	// copied is closed when the copying in progress ends; it is nil when there is none.
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

// stop stops the checkpointer and waits for it to end.
func (p *checkpointer) stop() {
	p.cancel()
	<-p.done
}

// wrote counts what a commit has added. A row at a random place in the key order dirties a separate index page.
func (p *checkpointer) wrote(e *backend.Effects) {
	n := 4 * p.b.pageSize
	for i := range e.Rows {
		n += int64(len(e.Rows[i].Value)) + p.b.pageSize
	}
	p.add(n, len(e.Rows), 1)
}

// removed counts what a purge has added: for each row, the table and the index lose an entry, each possibly on a
// different page.
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

// judge determines the load profile of the commits since the last wake.
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

// poke wakes the checkpointer to check the WAL soon.
func (p *checkpointer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// throttle blocks a writer while copying cannot keep up with the writes.
func (p *checkpointer) throttle(ctx context.Context) error {
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
	c, err := p.b.connect("synchronous = "+p.b.synchronous(), "wal_autocheckpoint = 0",
		"busy_timeout = "+restartTimeout)
	if err != nil {
		if p.b.watchContent() == nil { // otherwise another program has written to the file
			_ = p.b.markBroken("open the checkpointing connection", err)
		}
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

// once copies what is in the WAL, and makes the WAL start again when it is large. It reports whether something was
// left.
func (p *checkpointer) once(ctx context.Context, c *conn, profile int) (left bool) {
	if p.b.broken.Load() != nil {
		return false // after a failure nothing is synced again
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
	w, ok := p.checkpoint(c, "PASSIVE")
	p.note()
	if ok && p.stall.observe(p.b, w, time.Now()) {
		p.restartAt = 0
	}
	if profiles[profile].writeBack && p.b.synchronous() != "OFF" {
		beginWriteBack(p.b.file)
	}
	if !ok || w.total < max(p.restartAt, limit) || p.stall.lasts(time.Now()) > 0 {
		return !ok || w.copied < w.total || p.news()
	}
	// A WAL with constant writes never starts again by itself, so the little that was added during the round is copied
	// while the writer waits. SQLite syncs the database when everything is copied; what is already synced does not make
	// the writer wait.
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
	if p.b.acquireWriterForCheckpoint(ctx) != nil {
		return true
	}
	defer p.b.releaseWriter()
	mode := "RESTART"
	if _, beyond, err := p.b.logSize(); err == nil && beyond > 0 {
		mode = "TRUNCATE" // returns the space of a WAL that grew while it could not start again
	}
	w, ok = p.checkpoint(c, mode)
	if p.restartAt = 0; ok && w.busy {
		p.restartAt = w.total + restartAgain // do not block the writer again immediately
	}
	return !ok || w.busy
}

// fit returns the size in bytes at which the WAL starts again. While the disk is nearly full, the WAL is kept so small
// that the reserve has room for copying all of it into the file: a WAL that cannot be copied cannot start again, and
// deletes depend on that.
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

// news reports whether anything was written since the round began.
func (p *checkpointer) news() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written > 0
}

// wal is the content of the WAL, in bytes. busy is set if somebody reads a part that was to be overwritten.
type wal struct {
	total, copied int64
	busy          bool
}

// checkpoint copies as much of the WAL as mode allows. ok is false after an error, and while another connection is
// making a checkpoint: SQLite answers -1 for both sizes then, which says nothing about the WAL.
func (p *checkpointer) checkpoint(c *conn, mode string) (w wal, ok bool) {
	n, err := p.b.copyLog(c, mode)
	if err != nil || len(n) != 3 || n[1] < 0 || n[2] < 0 {
		p.failed(err)
		return wal{}, false
	}
	if p.outage.Worked() {
		p.b.log.Info("checkpoints succeed again", "path", p.b.path)
	}
	return wal{n[1] * p.b.pageSize, n[2] * p.b.pageSize, n[0] != 0}, true
}

// note records in the lock file what the store has reached, at most once per notePeriod.
func (p *checkpointer) note() {
	if time.Since(p.noted) < notePeriod {
		return
	}
	p.noted = time.Now()
	if err := p.b.noteUnlessBroken(); err == nil {
		p.noting.Worked()
	} else if p.noting.Failed() {
		p.b.log.Warn("cannot note what the store has reached", "path", p.b.path, "error", err)
	}
}

// sync syncs what was copied to disk.
func (p *checkpointer) sync() bool {
	if p.b.synchronous() == "OFF" {
		return true
	}
	err := p.b.file.Sync()
	if err != nil {
		// No further writes may be made as if nothing had happened. The file is sealed, so that SQLite keeps the WAL
		// when it closes the file.
		_ = p.b.markBroken("sync the database", err)
	}
	return err == nil
}

func (p *checkpointer) failed(err error) {
	switch {
	case errors.Is(err, errOverwritten): // logged
	case isDamagedPage(err):
		p.b.refuseWrites(translate("checkpoint", err))
	case err != nil:
		p.b.reserve.full(err)
		// Unless the error stops all writing, the WAL stays as it is and the next round tries again.
		err = p.b.syncError("checkpoint", err)
		if p.outage.Failed() {
			p.b.log.Warn("checkpoint failed", "path", p.b.path, "error", err)
		}
	}
}
