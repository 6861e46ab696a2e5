package index

import "github.com/sqlstore/sqlstore/backend"

// Log is one of the logs of changes that an index has. With the changes above a revision undone, the current rows are
// those of that revision. Both logs are bounded by bytes, and reach as far back as they have space.
type Log int

const (
	// Undo has all changes, with the rows that they superseded.
	Undo Log = iota
	// Growth has the changes that added or removed keys, without rows. Counts need nothing else. Where most writes
	// update keys, it reaches much further back.
	Growth
)

// String returns the log's name.
func (l Log) String() string {
	if l == Growth {
		return "growth"
	}
	return "undo"
}

const (
	// undoPart and growthPart are the parts of the value cache's size that the logs may have besides it.
	undoPart, growthPart = 4, 16
	// undoSmall is what the undo log may have in bytes if the cache is at least that large: about the changes of ten
	// minutes at 200 a second.
	undoSmall = 32 << 20
)

// changeLogs are the logs of the same changes.
type changeLogs struct {
	undo, growth undoLog
}

// newChangeLogs returns logs of the changes above start, beside a value cache of cacheBytes.
func newChangeLogs(start, cacheBytes int64) changeLogs {
	undo := max(cacheBytes/undoPart, min(cacheBytes, undoSmall))
	return changeLogs{undo: newUndoLog(start, undo), growth: newUndoLog(start, cacheBytes/growthPart)}
}

// log returns the log of a kind.
func (l *changeLogs) log(kind Log) *undoLog {
	if kind == Growth {
		return &l.growth
	}
	return &l.undo
}

// add records that r superseded old, nil for none.
func (l *changeLogs) add(r *backend.Row, old *Item) {
	l.undo.add(r, old)
	l.growth.grows(r, old != nil)
}

// commit ends a batch.
func (l *changeLogs) commit(compacted int64) {
	l.undo.commit(compacted)
	l.growth.commit(compacted)
}

// trim trims the logs. See [undoLog.trim].
func (l *changeLogs) trim(compacted int64, values int) (more bool) {
	l.growth.trim(compacted, 0)
	return l.undo.trim(compacted, values)
}

// append adds the logs of a batch, which began at revision rev. The caller must trim l.
func (l *changeLogs) append(batch *changeLogs, rev int64) {
	l.undo.append(&batch.undo, rev)
	l.growth.append(&batch.growth, rev)
}
