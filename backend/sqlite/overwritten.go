package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// errOverwritten is the reason why a backend no longer uses its file after another program has written to it or to its
// log.
var errOverwritten = &backend.Refusal{
	Reason: "another program has written to the database file that this server has open (a copy over it, or " +
		"sqlite3, in spite of the lock) or has cut it off, so writes and reads of the file are refused",
	Advice: "stop that program and restart, which verifies the file",
}

// unknownState is the state of a file that cannot be read.
const unknownState = "unknown"

// content is the file as this process left it. Only checkpoints write to it while it is open; all of this process hold
// the mutex.
type content struct {
	mu    sync.Mutex
	root  int64 // number of the page of the clock
	state string
	size  int64 // of the file in bytes
	// first is the first page, and clock that of the clock, of which every checkpoint copies another one.
	first, clock []byte
	revision     int64 // the highest one that was in the file
}

// copyLog makes a checkpoint unless another program has written to the file. It returns SQLite's three numbers.
func (b *Backend) copyLog(c *conn, mode string) (n []int64, err error) {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	if err := b.checkContent(); err != nil {
		return nil, err
	}
	revision := b.clock.Load().Revision
	n, err = c.queryInts("PRAGMA wal_checkpoint(" + mode + ")")
	b.leave()
	if err != nil {
		return nil, err
	}
	if !copiedAll(n) {
		revision = 0
	}
	if !b.cfg.NoPageChecksums && b.content.state != unknownState && !b.writtenSo(revision) {
		return nil, b.stopUsing()
	}
	return n, nil
}

// copiedAll reports whether a checkpoint with these three numbers has copied the whole log.
func copiedAll(n []int64) bool { return len(n) == 3 && n[1] >= 0 && n[1] == n[2] }

// writtenSo reports whether the content can be what a checkpoint up to a revision has left. It cannot if another
// program has written to the file meanwhile.
func (b *Backend) writtenSo(revision int64) bool {
	c := &b.content
	if row, ok := clockInPage(c.clock); ok && row.revision < revision {
		return false
	}
	return bytes.HasPrefix(c.first, []byte(headerMagic)) &&
		(b.plain || pagesum.Valid(c.first) && pagesum.Valid(c.clock))
}

// leave records the state of the file, which this process has just written. It needs the content's mutex, or that
// nothing else runs.
func (b *Backend) leave() {
	c := &b.content
	state, size, first, clock, err := b.look()
	if err != nil {
		state = unknownState
	}
	c.state, c.size, c.first, c.clock = state, size, first, clock
	if row, ok := clockInPage(clock); ok {
		c.revision = max(c.revision, row.revision)
	}
}

// look reads what content has of the file that is open, whatever is at its path now.
func (b *Backend) look() (state string, size int64, first, clock []byte, err error) {
	size, modified, err := b.file.Stat()
	if err != nil {
		return "", 0, nil, nil, err
	}
	first, clock = make([]byte, b.pageSize), make([]byte, b.pageSize)
	if b.content.root > 0 {
		_, errFirst := b.file.ReadAt(first, 0)
		_, errClock := b.file.ReadAt(clock, (b.content.root-1)*b.pageSize)
		err = errors.Join(ignoreEnd(errFirst), ignoreEnd(errClock))
	}
	return closedFile(size, modified), size, first, clock, err
}

// checkContent stops the use of the file if another program has written to it: SQLite would mix it with the log and
// with the pages in memory. The content's mutex is held.
func (b *Backend) checkContent() error {
	c := &b.content
	if err := b.overwritten(); err != nil || b.cfg.NoPageChecksums || c.state == unknownState {
		return err
	}
	size, modified, err := b.file.Stat()
	if err != nil || closedFile(size, modified) == c.state {
		return nil //nolint:nilerr // a file that the system cannot tell has not changed as far as is known
	}
	state, size, first, clock, err := b.look()
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	if size == c.size && bytes.Equal(first, c.first) && bytes.Equal(clock, c.clock) { // touched, for example
		c.state = state
		return nil
	}
	return b.stopUsing()
}

// stopUsing makes the backend refuse everything that needs the file, and leave the file and its log as they are. The
// next start decides whether the log belongs to the file.
func (b *Backend) stopUsing() error {
	err := fmt.Errorf("%w: %s", errOverwritten, b.path)
	b.file.Seal(true)
	b.broken.Store(&err)
	noted := b.writeNote(b.foreignOwner())
	b.log.Error("database refuses writes and reads of the file", "path", b.path, "error", err)
	if noted != nil {
		b.log.Warn("cannot note that another program has written to the database file", "path", b.path, "error", noted)
	}
	return err
}

// abandonFile is stopUsing for callers that do not hold the content's mutex.
func (b *Backend) abandonFile() error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return b.stopUsing()
}

// foreignOwner returns the owner in the note of a file that another program has written to.
func (b *Backend) foreignOwner() string { return fmt.Sprint(foreignPages, b.content.revision) }

// watchContent is checkContent between checkpoints.
func (b *Backend) watchContent() error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return b.checkContent()
}

// watchClock is checkClock while no other call holds the writing connection: a commit compares the clock itself.
func (b *Backend) watchClock() error {
	select {
	case b.writerLock <- struct{}{}:
		defer b.releaseWriter()
		return b.checkClock()
	default:
		return nil
	}
}

// checkClock stops the use of the file if its clock is not that of the last commit: another program has committed to
// the file, as sqlite3's .restore does. The caller holds the writing connection.
func (b *Backend) checkClock() error {
	if b.broken.Load() != nil {
		return nil
	}
	var clock backend.Clock
	err := b.writer.each(context.Background(), readClock, func(row []driver.Value) bool {
		clock = clockOf(row)
		return false
	})
	if err != nil && !isCode(err, sqlite3.ErrError) { // which is that of a missing table
		return nil // reads and commits report it
	}
	if clock == *b.clock.Load() {
		return nil
	}
	return b.abandonFile()
}

// clockOf returns the clock in a row of readClock.
func clockOf(row []driver.Value) backend.Clock {
	return backend.Clock{Revision: integer(row[0]), Compacted: integer(row[1]), Epoch: integer(row[2])}
}

// findClock finds the page of the clock.
func (b *Backend) findClock() error {
	root, err := b.writer.queryInt("SELECT rootpage FROM sqlite_schema WHERE name = 'clock' AND type = 'table'")
	if err != nil {
		return err
	}
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	if b.content.root > 0 { // what was left is compared at the former page
		if err := b.checkContent(); err != nil {
			return err
		}
	}
	b.content.root = root
	b.leave()
	return nil
}

// overwritten returns the error of a backend whose file was overwritten, nil for any other.
func (b *Backend) overwritten() error {
	if broken := b.broken.Load(); broken != nil && errors.Is(*broken, errOverwritten) {
		return *broken
	}
	return nil
}

// translate is the function of that name, except that damage by another program is called that.
func (b *Backend) translate(doing string, err error) error {
	if isDamagedPage(err) || isCode(err, sqlite3.ErrCorrupt) {
		if err := b.watchContent(); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return translate(doing, err)
}

// foreign reports whether the note is of a server that has found its file overwritten.
func (n note) foreign() bool { return strings.HasPrefix(n.owner, foreignPages) }

// replaced reports whether the file is in an earlier state than such a server had left it in. Its log may lead on from
// there, but whoever has put the file there wants that state.
func (n note) replaced(path string) bool {
	revision, err := strconv.ParseInt(strings.TrimPrefix(n.owner, foreignPages), 10, 64)
	row, known := clockOfFile(path, false)
	return err == nil && known && row.revision < revision
}

// errOnlyLog is returned for a log without its file.
var errOnlyLog = errors.New("the database file is missing or empty, and its write-ahead log is there: put the file " +
	"back, or a copy from before the log; to begin with an empty store or a backup, move the -wal and -shm files to " +
	"a safe place, because they may hold acknowledged writes")

// settleLog is checkLog, except that it moves a log aside that is not for the file which another program has put in the
// place of the log's own, as the note says. A log that belongs to the file and ends before what that server had reached
// came with the file.
func (b *Backend) settleLog(ctx context.Context, n note) (logState, error) {
	state, err := checkLog(ctx, b.path, n.owner == ownPages, b.synchronous() != "OFF")
	if size, _, e := b.file.Stat(); errors.Is(err, ErrStaleLog) && e == nil && size == 0 {
		return state, fmt.Errorf("%w: %s", errOnlyLog, b.path)
	}
	if !n.foreign() {
		return state, err
	}
	older := state.filled && n.replaced(b.path)
	switch restored := older && err == nil && state.belongs && state.last < n.revision; {
	case restored:
		b.log.Warn("the database file was replaced while a server had it open; the write-ahead log beside it belongs "+
			"to it and is not that server's, so the writes in it were applied", "path", b.path, "revision", state.last)
	case older, errors.Is(err, ErrStaleLog):
		return logState{}, b.saveLog()
	case err == nil && state.belongs:
		b.log.Warn("another program wrote to the database file while a server had it open; the write-ahead log leads "+
			"on from what is there, so the writes in it were applied: if you restored a copy, stop the server, move "+
			"the log to another directory and restore the copy again", "path", b.path)
	}
	return state, err
}

// savedLog returns the path of a log that is moved or copied aside now.
func (b *Backend) savedLog() string {
	return b.path + "-wal." + time.Now().UTC().Format("20060102T150405Z")
}

// saveLog moves a log aside that does not belong to the file, which another program has put there while a server had
// it open. The log may hold that server's last writes.
func (b *Backend) saveLog() error {
	log, saved := b.path+"-wal", b.savedLog()
	if err := os.Rename(log, saved); err != nil {
		return fmt.Errorf("move the write-ahead log aside: %w", err)
	}
	b.log.Warn("the database file was replaced while a server had it open; moved the write-ahead log of the former "+
		"one aside, which may hold acknowledged writes", "path", log, "to", saved)
	return nil
}
