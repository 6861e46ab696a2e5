package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
)

const (
	// applicationID marks a file as sqlstore's in SQLite's header: "sqls".
	applicationID = 0x73716c73

	readerCache  = 1024 // KiB
	scannerCache = 128  // KiB
	// scanners is how many connections read the table from one end to the other.
	scanners = 2

	incrementalVacuum = 2 // SQLite's number for auto_vacuum=INCREMENTAL
)

// prepareFile initializes a new file, checks an existing one, and migrates it. Pages are verified if own is set.
func (b *Backend) prepareFile(ctx context.Context, own bool) error {
	name := writableDSN(b.path, own)
	c, err := open(name)
	if err == nil {
		err = errors.Join(b.checkFile(c), c.close())
	}
	if err != nil {
		return startError(err)
	}
	db := sql.OpenDB(connector{name, b.synchronous()})
	if err = schema.Up(ctx, db, b.log); err == nil {
		// What was done so far has no id of its own. On a full disk nothing was.
		if _, err = db.ExecContext(ctx, statements[nameAnyCommit]); isCode(err, sqlite3.ErrFull) {
			err = nil
		}
	}
	return startError(errors.Join(err, db.Close()))
}

func (b *Backend) checkFile(c *conn) error {
	tables, err := c.queryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	id, err := c.queryInt("PRAGMA application_id")
	if err != nil {
		return err
	}
	if id != applicationID && (id != 0 || tables != 0) {
		return ErrNotSQLStore
	}
	if tables == 0 {
		if b.before.cluster != 0 {
			b.log.Warn("the database file is missing or empty, although its lock file shows that a store was here: "+
				"this server begins a new, empty store; to go on with the old one, stop it and restore a backup",
				"path", b.path, "revision-before", b.before.revision)
		}
		if err := c.reserveSums(); err != nil {
			return err
		}
		// The order matters: auto_vacuum is fixed when the first page is written, and setting WAL mode writes it.
		for _, p := range []string{
			"auto_vacuum = INCREMENTAL", fmt.Sprintf("application_id = %d", applicationID), "journal_mode = WAL",
		} {
			if err := c.exec("PRAGMA " + p); err != nil {
				return err
			}
		}
	}
	return b.checkAutoVacuum(c)
}

// checkAutoVacuum repairs a file that cannot return free space; only another program can have changed it so.
func (b *Backend) checkAutoVacuum(c *conn) error {
	mode, err := c.queryInt("PRAGMA auto_vacuum")
	if err != nil || mode == incrementalVacuum {
		return err
	}
	b.log.Warn("database does not give space back; rewriting it once so that it does", "path", b.path, "auto_vacuum",
		mode)
	for _, q := range []string{"PRAGMA auto_vacuum = INCREMENTAL", "VACUUM"} {
		if err := c.exec(q); err != nil {
			return err
		}
	}
	mode, err = c.queryInt("PRAGMA auto_vacuum")
	if err == nil && mode != incrementalVacuum {
		err = fmt.Errorf("auto_vacuum stays at %d; set it with: sqlite3 FILE 'PRAGMA journal_mode=DELETE; PRAGMA "+
			"auto_vacuum=2; VACUUM'", mode)
	}
	return err
}

// load opens the writing connection and loads what is kept in memory.
func (b *Backend) load() error {
	var err error
	b.writer, err = b.connect(
		"journal_mode = WAL",
		"synchronous = "+b.synchronous(),
		"wal_autocheckpoint = 0", // the checkpointer's work
		"journal_size_limit = "+fmt.Sprint(2*walLimit),
		fmt.Sprintf("cache_size = -%d", writerCache),
	)
	if err != nil {
		return startError(err)
	}
	if b.pageSize, err = b.writer.queryInt("PRAGMA page_size"); err != nil {
		return startError(err)
	}
	if err := b.findClock(); err != nil {
		return startError(err)
	}
	var clock backend.Clock
	found := 0
	err = b.writer.each(context.Background(), readClock, func(row []driver.Value) bool {
		clock = clockOf(row)
		found++
		return true
	})
	if err != nil {
		return startError(err)
	}
	b.clock.Store(&clock)
	err = b.writer.each(context.Background(), readSettings, func(row []driver.Value) bool {
		switch id := uint64(integer(row[1])); row[0] {
		case "cluster_id":
			b.settings.ClusterID = id
		case "member_id":
			b.settings.MemberID = id
		}
		return true
	})
	if err != nil {
		return startError(err)
	}
	err = b.writer.each(context.Background(), lastTime, func(row []driver.Value) bool {
		b.written = integer(row[0])
		return false
	})
	if err != nil {
		return startError(err)
	}
	size, err := summedPages(b.file)
	b.plain = size == 0 || b.cfg.NoPageChecksums
	if size == 0 && err == nil {
		b.log.Info("pages of the database have no checksums, because another program created the file; defragment it "+
			"to add them", "path", b.path)
	}
	b.settings.MaxRevision = lastRevision
	if found != 1 || b.settings.ClusterID == 0 || b.settings.MemberID == 0 {
		return fmt.Errorf("%w: its clock or its settings are missing", ErrCorrupt)
	}
	if b.logFile, err = os.Open(b.path + "-wal"); err != nil {
		b.log.Warn("cannot notice a removal of the write-ahead log", "path", b.path, "error", err)
	}
	b.windowRows = windowRows
	b.writerLock = make(chan struct{}, 1)
	b.closing = make(chan struct{})
	b.long = make(chan struct{}, max(1, b.cfg.Readers-1))
	b.readers = make(chan *conn, b.cfg.Readers)
	for range b.cfg.Readers {
		b.readers <- nil
	}
	b.urgent = make(chan *conn, 1)
	b.urgent <- nil
	b.scanners = make(chan *conn, scanners)
	for range scanners {
		b.scanners <- nil
	}
	b.maintenance = make(chan *conn, 1)
	b.maintenance <- nil
	return nil
}

func (b *Backend) synchronous() string {
	if b.cfg.Temporary || b.cfg.UnsafeNoFsync {
		return "OFF"
	}
	return "FULL"
}

// connectReader opens a reading connection with a page cache of so many KiB.
func (b *Backend) connectReader(cache int) (*conn, error) {
	return b.connect("query_only = 1", fmt.Sprintf("cache_size = -%d", cache))
}

// openReaders opens the connections for reads that are not open yet: later, the file may no longer be at its path, and
// what the server holds must still be readable.
func (b *Backend) openReaders() {
	for lane, cache := range map[chan *conn]int{
		b.readers: readerCache, b.urgent: readerCache, b.maintenance: readerCache, b.scanners: scannerCache,
	} {
		for range cap(lane) {
			select {
			case c := <-lane:
				if c == nil {
					c, _ = b.connectReader(cache) // or the first read reports why this fails
				}
				lane <- c
			case <-b.closing:
				return
			}
		}
	}
}

// startError maps SQLite's errors to what they mean at startup.
func startError(err error) error {
	switch {
	case isCode(err, sqlite3.ErrNotADB):
		return fmt.Errorf("%w: %w", ErrNotSQLStore, err)
	case isCode(err, sqlite3.ErrCorrupt), isDamagedPage(err):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// connector opens database/sql connections for the migrations.
type connector struct{ dsn, synchronous string }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	opened, err := open(c.dsn, "synchronous = "+c.synchronous)
	if err != nil {
		return nil, err
	}
	return opened.c, nil
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }
