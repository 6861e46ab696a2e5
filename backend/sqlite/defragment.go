package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// Defragment implements [backend.Backend]. It adds a checksum to each page of a file that has none. VACUUM would do the
// same through a temporary file, for which SQLite has at most one directory per process. So Defragment copies the rows
// in order into a file next to the database, and copies them back in one transaction. While it runs, the disk needs
// room for two copies of the data in use.
func (b *Backend) Defragment(ctx context.Context) error {
	if err := b.acquireWriter(ctx); err != nil {
		return err
	}
	defer b.releaseWriter()
	if err := b.checkClock(); err != nil { // the copy gets the clock of the file
		return fmt.Errorf("defragment: %w", err)
	}
	copied := b.defragmented()
	err := b.copyTo(copied)
	if err == nil {
		b.log.Debug("defragmentation has made a compact copy, which replaces the database now", "path", b.path)
		err = b.copyBack(copied)
	}
	if err = errors.Join(err, removeCopy(copied)); err != nil {
		return err
	}
	mode, err := b.writer.queryInt("PRAGMA auto_vacuum")
	if err != nil || mode != incrementalVacuum {
		return errors.Join(translate("defragment", err),
			errIf(err == nil, fmt.Sprintf("defragment: auto_vacuum became %d", mode)))
	}
	if err := b.findClock(); err != nil {
		return b.translate("defragment", err)
	}
	return b.truncateWAL(ctx)
}

// truncateWAL copies the WAL into the database, whose file then shrinks to its new size. If readers prevent that or ctx
// ends, the checkpointer does it later.
func (b *Backend) truncateWAL(ctx context.Context) error {
	for {
		n, err := b.copyLog(b.writer, "TRUNCATE")
		if err != nil {
			return b.syncError("checkpoint after defragmenting", err)
		}
		// Busy, and the size of the WAL is unknown: SQLite does not wait for another checkpoint, such as the
		// checkpointer's.
		if busy, size := n[0] != 0, n[1]; !busy || size >= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// defragmented returns the path of the copy that Defragment makes. A crash may leave it behind.
func (b *Backend) defragmented() string { return b.path + ".defragment" }

// removeCopy removes a copy and its journal, if they exist.
func removeCopy(path string) error {
	var errs []error
	for _, p := range []string{path, path + "-journal"} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// makeCopy creates an empty file for the copy: a file that SQLite creates would be readable by others.
func makeCopy(path string) error {
	if err := removeCopy(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// copyTo makes a copy of the database that has no free pages and its rows in order. Losing the copy does no harm, so it
// is not synced.
func (b *Backend) copyTo(path string) error {
	if err := makeCopy(path); err != nil {
		return fmt.Errorf("defragment: make room for a copy: %w: %w", backend.ErrUnavailable, err)
	}
	c, err := b.connect("synchronous = OFF")
	if err != nil {
		return translate("defragment: open the database", err)
	}
	if err = c.reserveSums(); err == nil { // the file of another program may have none
		_, err = c.c.Exec("VACUUM INTO ?", []driver.Value{uri(path, "summed=1")})
	}
	return errors.Join(translate("defragment: copy the rows", err), c.close())
}

// copyBack replaces the database with its copy, in one transaction of the writing connection.
func (b *Backend) copyBack(path string) error {
	const doing = "defragment: put the copy in place"
	from, err := connect(path, "synchronous = OFF")
	if err != nil {
		return translate(doing, err)
	}
	done := false
	if _, err = from.run(nameAnyCommit); err == nil {
		done, err = b.writer.replace(from)
	}
	err = errors.Join(err, from.close())
	switch {
	case err == nil && !done:
		return fmt.Errorf("%s: %w: another program is using the database", doing, backend.ErrUnavailable)
	case isCode(err, sqlite3.ErrIoErr) && !isRead(err):
		return b.markBroken(doing, err) // it may have been the commit
	}
	return translate(doing, err)
}

// replace replaces the contents of c's database with those of from. done is false when somebody else has locked either.
func (c *conn) replace(from *conn) (done bool, err error) {
	backup, err := c.c.Backup("main", from.c, "main")
	if err != nil {
		return false, err
	}
	done, err = backup.Step(-1)
	if finished := backup.Finish(); err == nil && done {
		err = finished
	}
	return done, primary(err)
}

// primary converts an error of a backup, which carries only the extended code, to the form of all other errors.
func primary(err error) error {
	var e sqlite3.Error
	if errors.As(err, &e) && e.ExtendedCode == 0 {
		e.ExtendedCode, e.Code = sqlite3.ErrNoExtended(e.Code), e.Code&0xff
		return e
	}
	return err
}

// isRead reports whether err is a failed read, which means that nothing was written.
func isRead(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.ExtendedCode == sqlite3.ErrIoErrRead ||
		e.ExtendedCode == sqlite3.ErrIoErrShortRead || e.ExtendedCode == pagesum.ErrCode)
}
