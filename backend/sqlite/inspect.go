package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// inspectRows is how many rows one statement reads for an inspection: the log cannot start again while it runs.
const inspectRows = 512

// Inspect implements [backend.View]. SQLite itself compares the indexes with the tables, in both directions. Inspect
// also reads pages that do not match their checksums, so that it finds all damage.
func (v *View) Inspect(ctx context.Context, i *backend.Inspection) error {
	c, err := open(dsn(v.path, readOnly+unverified), "query_only = 1")
	if err != nil {
		return translate("open the database to verify it", err)
	}
	raw := &View{c: c, path: v.path}
	err = damageToProblem(i, raw.inspectRows(ctx, i))
	if err == nil {
		err = damageToProblem(i, raw.inspectAuth(i))
	}
	if err == nil {
		i.At("structure", 0)
		err = damageToProblem(i, raw.integrity(ctx, i))
		i.At("structure", 1)
	}
	if err = errors.Join(err, c.close()); err != nil {
		return err
	}
	if err := v.inspectLog(i); err != nil {
		return err
	}
	return v.inspectPages(ctx, i)
}

// inspectLog verifies the log that a crash has left. While a server writes to it, it may look damaged for a moment, so
// only damage that is found twice in a row counts.
func (v *View) inspectLog(i *backend.Inspection) error {
	seen := ""
	for range rereads {
		damage, err := v.damageOfLog()
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, io.EOF): // a closed file has no log
			return nil
		case err != nil || damage == "":
			return err
		case damage == seen:
			i.Problem("%s-wal: %s are lost", v.path, damage)
			return nil
		}
		seen = damage
	}
	return nil
}

func (v *View) damageOfLog() (damage string, err error) {
	log, err := os.Open(v.path + "-wal")
	if err != nil {
		return "", err
	}
	file, _ := clockOfFile(v.path, false)
	l, err := scanLog(log, file)
	return l.damage, errors.Join(err, log.Close())
}

// damageToProblem records an error as a problem if it says that the file is damaged, so that the inspection goes on.
func damageToProblem(i *backend.Inspection, err error) error {
	if errors.Is(err, backend.ErrCorrupt) {
		i.Problem("%v", err)
		return nil
	}
	return err
}

// inspectRows verifies the rows and the links between them.
func (v *View) inspectRows(ctx context.Context, i *backend.Inspection) error {
	clock, err := v.Clock(ctx)
	if err != nil {
		return err
	}
	imported, err := v.c.imported()
	if err != nil {
		return translate("read settings", err)
	}
	i.Gaps = imported.Gaps
	for next := int64(0); ; {
		rows := 0
		err := v.c.each(ctx, inspectedRows, func(row []driver.Value) bool {
			in := inspected(row)
			rows, next, clock = rows+1, integer(row[1])+1, in.Clock
			if revision := integer(row[valueColumns]); revision != in.Row.ModRevision {
				i.Problem("the row of revision %d says that it is of revision %d", in.Row.ModRevision, revision)
			}
			i.Row(&in)
			return true
		}, next, int64(inspectRows))
		if err != nil {
			return translate("read rows", err)
		}
		if rows < inspectRows {
			break
		}
	}
	i.Ended(clock)
	return nil
}

// inspectAuth verifies the users and roles.
func (v *View) inspectAuth(i *backend.Inspection) error {
	if err := v.c.exec("BEGIN"); err != nil {
		return translate("read users and roles", err)
	}
	users, err := v.c.auth()
	if err = errors.Join(err, v.c.exec("ROLLBACK")); err != nil {
		return translate("read users and roles", err)
	}
	i.Auth(&users)
	return nil
}

// inspectPages verifies the checksums of pages if only this program has written to the file.
func (v *View) inspectPages(ctx context.Context, i *backend.Inspection) error {
	own, err := viewOwn(v.path)
	if err != nil || !own {
		return err
	}
	file, err := pagesum.OpenFile(v.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	size, err := summedPages(file)
	if err == nil && size > 0 {
		err = eachPage(ctx, file, size, func(number int64, page []byte, done float64) error {
			i.At("pages", done)
			if ok, err := v.pageValid(file, number, page); err != nil || ok {
				return err
			}
			i.Problem("page %d of the file does not match its checksum", number)
			return nil
		})
	}
	return errors.Join(err, file.Close())
}

// pageValid reports whether the page matches its checksum, or is superseded by one in the log: a crash may have left it
// half copied.
func (v *View) pageValid(file io.ReaderAt, number int64, page []byte) (bool, error) {
	for range rereads {
		if pagesum.Valid(page) {
			return true, nil
		}
		if _, err := file.ReadAt(page, (number-1)*int64(len(page))); err != nil {
			return errors.Is(err, io.EOF), ignoreEnd(err) // a server has made the file shorter
		}
	}
	return pageInLog(v.path+"-wal", number)
}

// inspected reads a row of inspectedRows.
func inspected(row []driver.Value) (in backend.Inspected) {
	readRow(&in.Row, row[:valueColumns])
	in.Sum, in.Written = integer(row[rowColumns+1]), integer(row[rowColumns+2])
	rest := row[valueColumns+1:]
	in.Clock = backend.Clock{Revision: integer(rest[0]), Compacted: integer(rest[1])}
	if id := rest[2]; id != nil {
		in.Prev = &backend.Row{
			ModRevision: revisionOf(integer(id)), CreateRevision: integer(rest[3]), Version: integer(rest[4]),
		}
	}
	return in
}

// integrity runs SQLite's own check of the file, which also compares the indexes with the tables.
func (v *View) integrity(ctx context.Context, i *backend.Inspection) error {
	rows, err := v.c.c.QueryContext(ctx, "PRAGMA integrity_check(100)", nil)
	if err != nil {
		return translate("check the file's structure", err)
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(translate("check the file's structure", err), rows.Close())
		}
		if said := fmt.Sprint(row[0]); said != "ok" {
			i.Problem("SQLite says: %s", said)
		}
	}
}
