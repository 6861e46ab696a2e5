package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// conn is one connection with its prepared statements. Only one goroutine at a time may use it.
type conn struct {
	c     *sqlite3.SQLiteConn
	stmts [numStatements]*stmt
	sums  backend.Sums
}

// stmt is a prepared statement with room for its arguments.
type stmt struct {
	s    *sqlite3.SQLiteStmt
	args []driver.NamedValue
	row  []driver.Value
}

const (
	readWrite = "mode=rw"
	readOnly  = "mode=ro"
	// unverified reads pages without verifying their checksums.
	unverified = "&verify=0"
)

// dsn returns the file name as a URI, in which any character of a path is safe, with parameters for SQLite. The
// connections do not need SQLite's mutex.
func dsn(path, parameters string) string {
	return uri(path, parameters+"&_mutex=no&vfs="+pagesum.VFS)
}

// writableDSN is dsn for reading and writing. Pages are verified only if own is set, which means that no other program
// has written to the file.
func writableDSN(path string, own bool) string {
	if own {
		return dsn(path, readWrite)
	}
	return dsn(path, readWrite+unverified)
}

func uri(path, parameters string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: parameters}).String()
}

// connect opens a connection and runs pragmas on it.
func connect(path string, pragmas ...string) (*conn, error) {
	return open(dsn(path, readWrite), pragmas...)
}

// connect opens a connection to the database as it is configured, and runs pragmas on it. Package pagesum refuses to
// open a file that has replaced the backend's; connect refuses another log.
func (b *Backend) connect(pragmas ...string) (*conn, error) {
	c, err := open(writableDSN(b.path, !b.cfg.NoPageChecksums), pragmas...)
	if err != nil {
		return nil, cmp.Or(b.checkPlace(), err)
	}
	if b.logFile == nil { // the first connection
		return c, nil
	}
	_, err = c.queryInt("PRAGMA schema_version") // which opens the log
	if err = cmp.Or(b.checkPlace(), err); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func open(dsn string, pragmas ...string) (*conn, error) {
	d, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{c: d.(*sqlite3.SQLiteConn)}
	for _, p := range pragmas {
		if err := c.exec("PRAGMA " + p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		if s != nil {
			errs = append(errs, s.s.Close())
		}
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// reserveSums makes a new database reserve room for a checksum in each page.
func (c *conn) reserveSums() error {
	return c.c.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_RESERVE_BYTES, pagesum.Reserved)
}

// exec runs statements that are too rare to keep prepared.
func (c *conn) exec(query string) error {
	_, err := c.c.Exec(query, nil)
	return err
}

// queryInts runs a rare query to its end and returns the integers of its last row. Some pragmas do part of their work
// with every row, so it steps through all rows.
func (c *conn) queryInts(query string) ([]int64, error) {
	rows, err := c.c.Query(query, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	var out []int64
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return out, rows.Close()
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		out = out[:0]
		for _, v := range row {
			n, _ := v.(int64)
			out = append(out, n)
		}
	}
}

// queryInt is queryInts for a single number.
func (c *conn) queryInt(query string) (int64, error) {
	n, err := c.queryInts(query)
	if err != nil || len(n) != 1 {
		return 0, errors.Join(err, errIf(err == nil, query+": one number expected"))
	}
	return n[0], nil
}

func errIf(cond bool, text string) error {
	if cond {
		return errors.New(text)
	}
	return nil
}

// prepared returns the statement and prepares it on first use.
func (c *conn) prepared(id statement) (*stmt, error) {
	if s := c.stmts[id]; s != nil {
		return s, nil
	}
	d, err := c.c.Prepare(statements[id])
	if err != nil {
		return nil, err
	}
	s := &stmt{s: d.(*sqlite3.SQLiteStmt)}
	s.args = make([]driver.NamedValue, s.s.NumInput())
	for i := range s.args {
		s.args[i].Ordinal = i + 1
	}
	c.stmts[id] = s
	return s, nil
}

func (s *stmt) bind(args []driver.Value) {
	for i, v := range args {
		s.args[i].Value = v
	}
}

// forget drops the references to the last arguments.
func (s *stmt) forget() {
	for i := range s.args {
		s.args[i].Value = nil
	}
}

// run executes a statement that returns no rows and reports how many it changed.
func (c *conn) run(id statement, args ...driver.Value) (int64, error) {
	s, err := c.prepared(id)
	if err != nil {
		return 0, err
	}
	s.bind(args)
	res, err := s.s.ExecContext(context.Background(), s.args)
	s.forget()
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// each executes a query and calls f with every row until f returns false. f may keep the bytes in a row, but not the
// slice. If ctx can end, each checks it while the query runs, which has a cost for each row: pass context.Background()
// to short queries.
func (c *conn) each(
	ctx context.Context, id statement, f func(row []driver.Value) (more bool), args ...driver.Value,
) error {
	s, err := c.prepared(id)
	if err != nil {
		return err
	}
	s.bind(args)
	rows, err := s.s.QueryContext(ctx, s.args)
	s.forget()
	if err != nil {
		return err
	}
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	for {
		err := rows.Next(s.row)
		if err == nil && f(s.row) {
			continue
		}
		closeErr := rows.Close() // Repeats err, if there is one.
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return closeErr
	}
}

// eachRow is each for short queries whose rows can turn out to be corrupt. It ends with the first error of f.
func (c *conn) eachRow(
	id statement, f func(row []driver.Value) (more bool, err error), args ...driver.Value,
) error {
	var failed error
	err := c.each(context.Background(), id, func(row []driver.Value) (more bool) {
		more, failed = f(row)
		return more && failed == nil
	}, args...)
	return cmp.Or(failed, err)
}
