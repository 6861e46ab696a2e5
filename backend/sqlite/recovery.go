package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// ErrStaleLog is returned for a database file next to the write-ahead log of another one, or of another state of it.
var ErrStaleLog = errors.New("the write-ahead log does not belong to the database file, which was put there after it " +
	"(a backup?), so SQLite would mix the two: put the file that belongs to the log back; to use this file as it is, " +
	"move the -wal and -shm files to a safe place, because they may hold acknowledged writes that it lacks")

// logState is what is known of a write-ahead log beside a file.
type logState struct {
	filled  bool  // it has commits
	belongs bool  // they show that they belong to the file
	last    int64 // the highest revision in them, 0 if none is
}

// checkLog checks, before SQLite opens the file at path and recovers it from the log of a crash, that the log belongs
// to the file and holds everything that was synced in it: SQLite would apply any log to any file. verify says whether
// the pages of the file have checksums. If the two show neither that the log belongs to the file nor the opposite, the
// file must be sound after the recovery.
//
// A transaction writes its own id and that of the one before into the row of the clock, which the log holds with it. So
// the file alone must be in the state before the first transaction of the log, or in that after one of them.
func checkLog(ctx context.Context, path string, verify, synced bool) (state logState, err error) {
	log, err := os.Open(path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("read the write-ahead log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if info, err := log.Stat(); err != nil || info.Size() <= walHeader {
		return state, err
	}
	file, known := clockOfFile(path, verify)
	certain := known
	if !known && verify {
		// Another program's copy has stale checksums in the pages that it has read from a log. That of the clock is
		// one. What it says can refuse the log, but it does not show that the other pages are this program's.
		file, known = clockOfFile(path, false)
	}
	l, err := scanLog(log, file)
	state = logState{filled: true, last: l.last}
	switch {
	case err != nil:
		return state, fmt.Errorf("read the write-ahead log: %w", err)
	case known && l.foreign:
		return state, fmt.Errorf("%w: %s-wal", ErrStaleLog, path)
	case l.damage != "" && synced:
		return state, fmt.Errorf("%w: %s-wal: %s would be lost; restore a backup; or, to go on without them, "+
			"copy the file and its log to another directory, and there run sqlite3 FILE "+
			"'PRAGMA wal_checkpoint(TRUNCATE)', then 'sqlstore repair --bump-revision'", ErrCorrupt, path, l.damage)
	case l.commits == 0:
		return logState{}, nil
	}
	mode, err := journalMode(path)
	switch {
	case err != nil:
		return state, err
	case mode != walMode, known && l.first.commit != 0 && !l.belongs:
		return state, fmt.Errorf("%w: %s-wal", ErrStaleLog, path)
	case certain && l.belongs:
		state.belongs = true
		return state, nil
	}
	return state, inspectRecovered(ctx, path)
}

// walMode is how the header of a database says that it uses a WAL. It does from before the first frame is written; a
// file that VACUUM INTO has made does not.
const walMode = 2<<8 | 2

// journalMode returns what the header of the file at path says about that.
func journalMode(path string) (mode uint16, err error) {
	const at = 18
	file, err := pagesum.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var versions [2]byte
	_, err = file.ReadAt(versions[:], at)
	return binary.BigEndian.Uint16(versions[:]), errors.Join(ignoreEnd(err), file.Close())
}

// clockOfFile reads the clock from the database file alone. A crash may leave a file that cannot be read without the
// log, which has the pages that a checkpoint has copied in part.
func clockOfFile(path string, verify bool) (row clockRow, known bool) {
	parameters := readOnly + "&immutable=1"
	if !verify {
		parameters += unverified
	}
	c, err := open(dsn(path, parameters))
	if err != nil {
		return row, false
	}
	n, err := c.queryInts("SELECT revision, commit_id, previous_commit_id FROM clock WHERE id = 1")
	if errors.Join(err, c.close()) != nil || len(n) != 3 {
		return row, false
	}
	return clockRow{revision: n[0], commit: n[1], previous: n[2]}, true
}

// warnOfNoLog warns of a file whose last server did not close it, if no log is beside it: the last writes may be
// missing.
func (b *Backend) warnOfNoLog() {
	if _, err := os.Stat(b.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		return
	}
	if row, known := clockOfFile(b.path, false); known && row.commit != row.previous {
		b.log.Warn("the database was not closed, and its write-ahead log is not beside it: a copy of a running "+
			"server's database lacks the writes since it was made, and one that was made without the -wal file lacks "+
			"those in it", "path", b.path, "revision", row.revision)
	}
}

// loggedCommits is what a WAL says about the transactions that SQLite would recover from it.
type loggedCommits struct {
	commits int      // number of transactions
	first   clockRow // after the first one that wrote the clock
	last    int64    // the highest revision of those
	belongs bool     // the file is in the state before that one or after one of them
	foreign bool     // nor is it near any other transaction, also behind what is damaged
	damage  string   // what is damaged, and which commits SQLite would drop because of it; "" if nothing is
}

// scanLog reads a log for a file with that clock, which is zero if it is not known.
//
// SQLite takes the first frame that is not whole for the end of the log, as a crash leaves it, and drops all after it.
// But a transaction that moves the clock's revision is synced before the next frame is written: if both are whole, so
// was every frame before them. And the file never has a later revision than the log, because a checkpoint copies only
// what is synced in the log.
func scanLog(log io.ReaderAt, file clockRow) (l loggedCommits, err error) {
	var (
		broken   int64           // number of the first frame that is not whole
		row      clockRow        // of the current transaction
		revision = file.revision // the highest one of a whole transaction
		synced   bool            // a transaction after the broken frame has ended and moved the revision
		proof    bool            // another frame followed it
		related  bool            // a whole transaction, wherever it is, or the one after it, has left the file so
	)
	whole, err := eachFrame(log, func(f *frame) bool {
		if !f.whole && broken == 0 {
			broken = f.number
		}
		if proof = f.whole && synced; proof {
			return false
		}
		if now, ok := clockInPage(f.content); ok && f.whole {
			row = now
		}
		if !f.commits {
			return true
		}
		synced = f.whole && broken != 0 && row.revision > revision
		if f.whole {
			revision = max(revision, row.revision)
			related = related || row.commit != 0 && (row.commit == file.commit || row.commit == file.previous)
		}
		if broken == 0 {
			l.commits++
			l.last = max(l.last, row.revision)
			if row.commit != 0 && l.first.commit == 0 {
				l.first, l.belongs = row, row.previous == file.commit
			}
			l.belongs = l.belongs || row.commit != 0 && row.commit == file.commit
		}
		row = clockRow{}
		return true
	})
	l.foreign = l.first.commit != 0 && !l.belongs && !related
	switch {
	case err != nil:
		return l, ignoreEnd(err)
	case !whole:
		l.damage = fmt.Sprintf("the first %d bytes and all commits", walHeader)
	case proof, broken != 0 && l.last != 0 && file.revision > l.last:
		l.damage = fmt.Sprintf("frame %d and later commits", broken)
	}
	return l, nil
}

// inspectRecovered checks that the file at path is sound as SQLite recovers it, and that its rows belong together,
// without changing it. Rows that do not match their checksums do not show a mixture: another program may have changed
// them.
func inspectRecovered(ctx context.Context, path string) error {
	c, err := open(dsn(path, readOnly+unverified), "query_only = 1")
	if err != nil {
		return startError(err)
	}
	v, found := &View{c: c, path: path}, &backend.Inspection{}
	err = damageToProblem(found, v.integrity(ctx, found))
	if err == nil && found.Found == 0 {
		err = damageToProblem(found, v.inspectRows(ctx, found))
	}
	err = errors.Join(err, c.close())
	switch {
	case isCode(err, sqlite3.ErrError): // a table is missing
		return fmt.Errorf("%w: %s-wal: %w", ErrStaleLog, path, err)
	case err != nil:
		return startError(err)
	}
	if found.Found > found.Damaged {
		return fmt.Errorf("%w: %s-wal: %s (problems: %d)", ErrStaleLog, path, found.Problems[0], found.Found)
	}
	return nil
}
