package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// placePeriod is how often a backend checks that its file is still at its path.
const placePeriod = time.Second

// errReplaced is the reason why a backend whose file is no longer at its path refuses writes.
var errReplaced = &backend.Refusal{
	Reason: "the database file that this server has open was replaced or removed, so further writes are refused",
	Advice: "save what the server holds with 'etcdctl snapshot save' if it is needed, then restart to use what is at " +
		"the path; if that is an earlier state of this database, the start refuses it and says what to run",
}

// errLogRemoved is the same for a backend whose write-ahead log is no longer beside its file.
var errLogRemoved = &backend.Refusal{
	Reason: "the write-ahead log of the database that this server has open was replaced or removed, so further " +
		"writes are refused",
	Advice: "its content is copied into the database file; restart when the server has reported that this is done",
}

// errLogLost is the reason why one whose removed log could not be copied refuses writes.
var errLogLost = &backend.Refusal{
	Reason: "the write-ahead log of the database that this server has open was removed, and syncing what it held to " +
		"the database file failed, so further writes are refused",
	Advice: "what the log held is lost when the server stops, so save what the server holds with 'etcdctl snapshot " +
		"save', then stop the server and restore that",
}

// errLogCutOff is the same for one whose log is shorter than what was written to it.
var errLogCutOff = fmt.Errorf("%w: the write-ahead log of the database that this server has open was cut off, so what "+
	"it held is lost from the disk: save what the server still answers from memory, then restore a backup",
	backend.ErrCorrupt)

// watchPlace checks until the backend closes that its file and its log are still at their paths, and that no other
// program has written to them. A file that is elsewhere cannot be opened again, and commits to it would be lost with
// the process.
func (b *Backend) watchPlace() {
	ticker := time.NewTicker(placePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-b.closing:
			return
		case <-ticker.C:
		}
		err := b.checkPaths()
		switch broken := b.broken.Load(); {
		case broken != nil && errors.Is(*broken, errLogRemoved):
			if b.salvageLog() {
				return
			}
		case err != nil, b.watchContent() != nil, b.watchClock() != nil:
			return
		}
	}
}

// checkPaths is checkPlace and relock. Only one goroutine at a time may call it.
func (b *Backend) checkPaths() error {
	err := b.checkPlace()
	if errors.Is(err, errReplaced) { // a start may use what is there
		return err
	}
	return errors.Join(err, b.relock())
}

// checkPlace refuses all further writes if the file or its log is not at its path.
func (b *Backend) checkPlace() error {
	var err error
	switch {
	case !b.fileAt(b.path):
		err = fmt.Errorf("%w: %s", errReplaced, b.path)
	case !b.fileAt(b.given):
		err = fmt.Errorf("%w: %s", errReplaced, b.given)
	case !b.logAt():
		err = fmt.Errorf("%w: %s", errLogRemoved, b.path)
		if place := b.place(); place != b.path {
			err = fmt.Errorf("%w, a link to %s now, beside which a start expects the log", err, place)
		}
	default:
		return nil
	}
	if !b.broken.CompareAndSwap(nil, &err) {
		return err
	}
	b.log.Error("database refuses all further writes", "path", b.path, "error", err)
	if errors.Is(err, errLogRemoved) {
		b.noteReached() // a crash before the log is copied loses what is in it
	}
	if errors.Is(err, errReplaced) {
		b.file.Seal(true) // the next start, or Close, decides whether the log belongs to what is at the path
		if err := errors.Join(b.noteForeign(), b.noteAtPath()); err != nil {
			b.log.Warn("cannot note that the database file was replaced", "path", b.path, "error", err)
		}
	}
	return err
}

// fileAt reports whether the file is at a path. If that cannot be looked at now, this does not say that it is gone.
func (b *Backend) fileAt(path string) bool {
	at, unknown := b.file.At(path)
	return at || unknown != nil
}

// place returns the path of the file that a start would open now, beside which it expects the log and the lock file. It
// differs from b.path if a symbolic link has been put there since.
func (b *Backend) place() string {
	path, err := resolve(b.given)
	if err != nil || missing(path) {
		return b.path
	}
	return path
}

// logAt reports whether the log is at its path, as far as can be told. It is the same file as long as the backend is
// open.
func (b *Backend) logAt() bool {
	if b.logFile == nil {
		return true
	}
	at, err := os.Stat(b.place() + "-wal")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	open, err := b.logFile.Stat()
	return err != nil || os.SameFile(at, open)
}

// salvageLog copies a log that was removed into the file: only this process still has it open. It reports whether that
// is done.
func (b *Backend) salvageLog() (done bool) {
	select {
	case b.writerLock <- struct{}{}:
	case <-b.closing:
		return true // Close copies it
	}
	b.noteReached() // with the writes that were in progress
	n, err := b.copyLog(b.writer, "PASSIVE")
	b.releaseWriter()
	switch {
	case errors.Is(err, errOverwritten): // logged
		return true
	case err != nil && b.file.Sealed():
		err = fmt.Errorf("%w: %s: %w", errLogLost, b.path, err)
		b.broken.Store(&err)
		b.log.Error("database refuses all further writes", "path", b.path, "error", err)
		b.noteReached() // the next start finds less
		return true
	case err == nil && !copiedAll(n):
		err = errLogInUse
	}
	if err != nil {
		if b.salvaging.Failed() {
			b.log.Warn("cannot copy the removed write-ahead log into the database file yet", "path", b.path, "error",
				err)
		}
		return false
	}
	b.log.Info("copied the removed write-ahead log into the database file; restart to accept writes again",
		"path", b.path)
	b.noteReached()
	return true
}
