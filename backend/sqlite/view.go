package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
)

// View implements [backend.View]. It takes no lock, and no two of its statements share a snapshot, so that a server can
// write to the file and copy its log meanwhile.
type View struct {
	c    *conn
	path string
}

// ErrOldSchema is returned for a file that a server of this version has not opened yet.
var ErrOldSchema = errors.New("the database has the schema of an older version; migrate it with 'sqlstore schema up' " +
	"or by starting the server")

// OpenView opens the file at path for reading. Errors: [ErrOldSchema], [ErrNotSQLStore], [ErrCorrupt],
// [schema.ErrNewer], file system errors.
func OpenView(ctx context.Context, path string) (*View, error) {
	v, err := openView(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %s for reading: %w", path, startError(err))
	}
	return v, nil
}

func openView(ctx context.Context, path string) (*View, error) {
	path, err := filepath.Abs(path) // SQLite's URI does not accept a relative path
	if err != nil {
		return nil, err
	}
	provideTempDir(filepath.Dir(path))
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db := sql.OpenDB(viewConnector{path})
	st, err := schema.Status(ctx, db)
	err = errors.Join(err, db.Close())
	switch {
	case err != nil:
		return nil, err
	case st.Version == 0:
		return nil, ErrNotSQLStore
	case st.Version < st.Newest:
		return nil, ErrOldSchema
	case !st.Usable():
		return nil, schema.ErrNewer
	}
	c, err := connectView(path)
	if err != nil {
		return nil, err
	}
	return &View{c: c, path: path}, nil
}

// connectView opens a connection that verifies pages only if this program alone has written them: those of a copy that
// sqlite3 has made need not match.
func connectView(path string) (*conn, error) {
	own, err := viewOwn(path)
	if err != nil {
		return nil, err
	}
	if !own {
		return open(dsn(path, readOnly+unverified), "query_only = 1")
	}
	return open(dsn(path, readOnly), "query_only = 1")
}

// viewOwn is writtenHere for a file that a server may have open.
func viewOwn(path string) (bool, error) {
	lock, err := os.Open(path + ".lock")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := readNote(lock)
	log, errLog := os.Stat(path + "-wal")
	return n.writtenHere(path, errLog == nil && log.Size() > 0), errors.Join(err, lock.Close())
}

// viewConnector opens database/sql connections that only read.
type viewConnector struct{ path string }

func (c viewConnector) Connect(context.Context) (driver.Conn, error) {
	opened, err := connectView(c.path)
	if err != nil {
		return nil, err
	}
	return opened.c, nil
}

func (viewConnector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// Close implements [backend.View].
func (v *View) Close() error { return v.c.close() }

// Clock implements [backend.View].
func (v *View) Clock(ctx context.Context) (clock backend.Clock, err error) {
	found := 0
	err = v.c.each(ctx, readClock, func(row []driver.Value) bool {
		clock = clockOf(row)
		found++
		return true
	})
	if err == nil && found != 1 {
		err = fmt.Errorf("%w: its clock is missing", ErrCorrupt)
	}
	return clock, translate("read the clock", err)
}

// WrittenAt implements [backend.Times].
func (v *View) WrittenAt(ctx context.Context, revision int64) (backend.Commit, backend.Clock, error) {
	found, err := v.c.nextCommit(revision)
	if err != nil {
		return backend.Commit{}, backend.Clock{}, translate("read a commit time", err)
	}
	clock, err := v.Clock(ctx)
	if err == nil {
		err = known(found, revision, clock)
	}
	return found, clock, err
}

// CurrentAt implements [backend.Times].
func (v *View) CurrentAt(ctx context.Context, t time.Time) (backend.Commit, backend.Clock, error) {
	clock, err := v.Clock(ctx)
	if err != nil {
		return backend.Commit{}, clock, err
	}
	found, err := backend.SearchCommits(clock.Revision, t, v.c.nextCommit)
	return found, clock, translate("search a commit time", err)
}

var _ backend.View = (*View)(nil)
