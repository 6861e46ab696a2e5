package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// errOverwritten is the reason why a backend refuses reads and writes after another program has put other content into
// its file.
var errOverwritten = fmt.Errorf("%w: another program has written over the database file that this server has open, so "+
	"reads and writes are refused: restart to use the file as it is", backend.ErrUnavailable)

// unknownState is the state of a file that the system cannot tell.
const unknownState = "unknown"

// content is what a backend knows about the content of its file. Only checkpoints write to the file while it is open,
// and each of them holds the mutex.
type content struct {
	mu      sync.Mutex
	left    string // the state in which this process has left the file, as closedFile identifies it
	copied  int64  // a revision that the file has certainly reached
	foreign bool   // another program has written to the file while it was open
}

// copyLog makes a checkpoint unless the content of the file is another one's. It returns SQLite's three numbers.
func (b *Backend) copyLog(c *conn, mode string) (n []int64, err error) {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	if err := b.checkContent(); err != nil {
		return nil, err
	}
	revision := b.clock.Load().Revision
	n, err = c.queryInts("PRAGMA wal_checkpoint(" + mode + ")")
	if err == nil && len(n) == 3 && n[1] >= 0 && n[1] == n[2] {
		b.content.copied = revision
	}
	b.leave()
	return n, err
}

// watchContent is checkContent between checkpoints.
func (b *Backend) watchContent() error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return b.checkContent()
}

// leave records the state of the file, which this process has just written. It needs the content's mutex, or that
// nothing else runs.
func (b *Backend) leave() {
	b.content.left = unknownState
	if state, err := b.state(); err == nil {
		b.content.left = state
	}
}

// state returns the state of the file that is open, whatever is at its path now.
func (b *Backend) state() (string, error) {
	size, modified, err := b.file.Stat()
	return closedFile(size, modified), err
}

// checkContent refuses all further reads and writes if another program has put another state of the store into the
// file: SQLite would mix it with the log and with the pages in memory. The content's mutex is held.
func (b *Backend) checkContent() error {
	if err := b.overwritten(); err != nil {
		return err
	}
	state, err := b.state()
	if err != nil || state == b.content.left || b.content.left == unknownState {
		return nil //nolint:nilerr // which says nothing about the content
	}
	// Twice: another program may just be writing the page of the clock, or this one may start the log again.
	if found := b.otherContent(); found != "" && b.otherContent() != "" {
		err := fmt.Errorf("%w: %s: %s", errOverwritten, b.path, found)
		b.file.Seal()
		b.broken.Store(&err)
		b.log.Error("database refuses all reads and writes", "path", b.path, "error", err)
		return err
	}
	// A checkpoint by another program, which is harmless, except that it does not maintain the checksums of pages.
	if !b.content.foreign && !b.cfg.NoPageChecksums {
		b.log.Warn("another program has written to the database file while this server has it open; the next start "+
			"verifies all pages", "path", b.path)
	}
	b.content.foreign, b.content.left = true, state
	return nil
}

// overwritten returns the error of a backend whose file was overwritten, nil for any other.
func (b *Backend) overwritten() error {
	if broken := b.broken.Load(); broken != nil && errors.Is(*broken, errOverwritten) {
		return *broken
	}
	return nil
}

// otherContent says what shows that the content of the file is not that of this store, or is an older state of it. It
// returns "" if nothing does.
func (b *Backend) otherContent() string {
	magic := make([]byte, len(headerMagic))
	switch _, err := b.file.ReadAt(magic, 0); {
	case err != nil && !errors.Is(err, io.EOF): // which says nothing about the content
		return ""
	case !bytes.Equal(magic, []byte(headerMagic)):
		return "it is not a database now"
	}
	row, cluster, known := clockOfFile(b.path, false)
	switch {
	case !known: // it may need a page that is in the log
		return ""
	case cluster != b.settings.ClusterID:
		return "it holds another store now"
	case row.revision < b.content.copied:
		return fmt.Sprintf("it is at revision %d now and was at %d", row.revision, b.content.copied)
	}
	log, err := os.Open(b.path + "-wal")
	if err != nil {
		return ""
	}
	defer log.Close()
	if l, err := scanLog(log, row); err == nil && l.first.commit != 0 && !l.belongs {
		return fmt.Sprintf("it is at another revision %d now", row.revision)
	}
	return ""
}

// saveLog moves the log of a file that was overwritten out of the way of the next start. It may hold the last writes.
func (b *Backend) saveLog() {
	log := b.path + "-wal"
	saved := log + "." + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Rename(log, saved); err != nil {
		b.log.Error("cannot move the write-ahead log of the file that was overwritten", "path", log, "error", err)
		return
	}
	b.log.Warn("moved the write-ahead log of the file that was overwritten", "path", log, "to", saved)
}
