package sqlite

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
)

// errLogInUse is the reason why a checkpoint did not copy the whole log.
var errLogInUse = errors.New("a read transaction of another process, or a long read of a client, needs an older " +
	"state of the database file; it ends with that process or read")

// putLogBack saves the content of a removed log at close, when a checkpoint could not copy it into the file: only this
// process still has it open.
func (b *Backend) putLogBack(cause error) {
	log, saved := b.place()+"-wal", b.savedLog()
	const failed = "checkpoint at close failed; "
	if err := b.copyRemovedLog(saved); err != nil {
		b.log.Error(failed+"what only the removed write-ahead log held is lost", "path", b.path, "error",
			errors.Join(cause, err))
		return
	}
	err := os.ErrExist
	if at, gone := os.Stat(log); errors.Is(gone, os.ErrNotExist) || gone == nil && at.Size() == 0 {
		err = errors.Join(os.Rename(saved, log), syncDirectory(filepath.Dir(log)))
	}
	if err != nil {
		b.log.Error(failed+"saved the removed write-ahead log; put it in its place before the next start", "path",
			b.path, "from", saved, "to", log, "error", errors.Join(cause, err))
		return
	}
	b.log.Warn(failed+"put the removed write-ahead log back, and the next start goes on from it", "path", b.path,
		"error", cause)
}

func (b *Backend) copyRemovedLog(to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(b.logFile, 0, math.MaxInt64))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		err = errors.Join(err, os.Remove(to))
	}
	return err
}
