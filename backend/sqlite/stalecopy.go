package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/mattn/go-sqlite3"
)

// notePeriod is the minimum time between two notes by the checkpointer of what the file holds. A note is not part of a
// commit.
const notePeriod = time.Second

const tableLeaf = 0x0d // the first byte of a table leaf page

// checkCopy refuses a file whose clock is behind the revision that it is known to have held, if the WAL next to it has
// that revision: an older copy was copied over the file. A WAL that lacks the revision was copied together with the
// file. root is the page that holds the clock.
func (b *Backend) checkCopy(held, root int64) error {
	revision, readable := revisionOfFile(b.path)
	if !readable || revision >= held {
		return nil
	}
	log, err := os.Open(b.path + "-wal")
	if err != nil {
		return fmt.Errorf("read the write-ahead log: %w", err)
	}
	logged, err := revisionOfLog(log, root)
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("read the write-ahead log: %w", err)
	}
	if logged < held {
		return nil
	}
	return fmt.Errorf("%w: %s-wal; the file is at revision %d and was at %d before", ErrStaleLog, b.path, revision,
		held)
}

// revisionOfFile reads the clock from the database file alone and ignores the WAL. A file may not be readable without
// it: a crash may leave a half-copied page, which is whole in the WAL.
func revisionOfFile(path string) (revision int64, readable bool) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&immutable=1"}
	d, err := (&sqlite3.SQLiteDriver{}).Open(name.String())
	if err != nil {
		return 0, false
	}
	c := &conn{c: d.(*sqlite3.SQLiteConn)}
	revision, err = c.queryInt("SELECT revision FROM clock WHERE id = 1")
	return revision, errors.Join(err, c.close()) == nil
}

// revisionOfLog returns the revision of the last clock in a WAL, 0 if there is none.
func revisionOfLog(log io.ReaderAt, root int64) (revision int64, err error) {
	last := int64(0)
	size, err := eachFrame(log, func(at, number int64) {
		if number == root {
			last = at + frameHeader
		}
	})
	if last == 0 || err != nil {
		return 0, err
	}
	page := make([]byte, size)
	if _, err := log.ReadAt(page, last); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return revisionInPage(page), nil
}

// revisionInPage returns the second column of the only row in a page, or 0 if the page does not have that form.
func revisionInPage(page []byte) int64 {
	if len(page) < 10 || page[0] != tableLeaf || binary.BigEndian.Uint16(page[3:]) != 1 {
		return 0
	}
	// The cell holds, each as a varint, the length of the row, its id, the length of the list of column types, and
	// those types; the columns follow. The types of the clock's columns take one byte each, and the id column takes no
	// bytes at all.
	at := int(binary.BigEndian.Uint16(page[8:]))
	const cell = 2 + 1 + 4
	if at+cell > len(page) || page[at+2] != 5 || page[at+3] != 0 {
		return 0
	}
	width := map[byte]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}[page[at+4]]
	if at+cell+width > len(page) {
		return 0
	}
	var n int64
	for _, digit := range page[at+cell : at+cell+width] {
		n = n<<8 | int64(digit)
	}
	return n
}

// holds returns the revision that the file will hold once a checkpoint that begins now has copied all of the WAL. due
// is false if the last note was less than notePeriod ago, or if nothing is synced.
func (p *checkpointer) holds() (revision int64, due bool) {
	return p.b.clock.Load().Revision, time.Since(p.noted) >= notePeriod && p.b.synchronous() != "OFF"
}

// note writes a note with the revision up to which the file has been synced, and logs a failure.
func (p *checkpointer) note(c *conn, revision int64) {
	p.noted = time.Now()
	if err := p.b.noteHeld(c, revision); err != nil {
		p.b.log.Warn("cannot note which write-ahead log belongs to the database", "path", p.b.path, "error", err)
	}
}
