package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrStaleLog is returned for a database file next to the write-ahead log of another one.
var ErrStaleLog = errors.New("the write-ahead log is not that of the database file, which was put there after it " +
	"(a backup?): SQLite would write the old log into it; remove the -wal and -shm files to use the file as it is, " +
	"or put the file that belongs to them back")

const (
	walHeader = 32 // bytes before the first frame
	// journalVersions is the offset in a database's header of the write and read versions. Both are walVersion from
	// before the first frame is written to a log. VACUUM INTO makes files in which they are not.
	journalVersions = 18
	walVersion      = 2
	// noteLength is the length of a note, more than it needs, in bytes.
	noteLength = 120
)

// checkLog checks whether the log that a crash has left belongs to the file. The lock file names the files that were in
// use together.
func (b *Backend) checkLog() error {
	log, err := os.Stat(b.path + "-wal")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the write-ahead log: %w", err)
	case log.Size() <= walHeader:
		return nil
	}
	var versions [2]byte
	if _, err := b.file.ReadAt(versions[:], journalVersions); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if versions != [2]byte{walVersion, walVersion} {
		return fmt.Errorf("%w: %s-wal", ErrStaleLog, b.path)
	}
	file, err := b.file.Stat()
	if err != nil {
		return err
	}
	var fileThen, logThen string
	note := bufio.NewReader(io.NewSectionReader(b.lock, 0, noteLength))
	if n, _ := fmt.Fscan(note, &fileThen, &logThen); n < 2 {
		return nil // an older program, or a start that was interrupted, left no note
	}
	if fileThen != identity(file) && logThen == identity(log) { // if both were copied, both are new
		return fmt.Errorf("%w: %s-wal", ErrStaleLog, b.path)
	}
	var held, root int64
	if n, _ := fmt.Fscan(note, &held, &root); n < 2 || fileThen != identity(file) || logThen != identity(log) {
		return nil // nothing was copied since the start
	}
	return b.checkCopy(held, root)
}

// forgetFiles blanks the note while the files may change. The note keeps its length, because the disk may be full.
func (b *Backend) forgetFiles() error {
	info, err := b.lock.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	return b.note("")
}

// noteFiles records in the lock file which files are in use together.
func (b *Backend) noteFiles() error {
	file, err := b.file.Stat()
	if err != nil {
		return err
	}
	log, err := os.Stat(b.path + "-wal")
	if err != nil {
		return err
	}
	b.files = identity(file) + " " + identity(log)
	return b.note(b.files)
}

// note writes a note of noteLength. A full disk must not keep the server from starting, because only a running server
// can free space in the database.
func (b *Backend) note(text string) error {
	_, err := b.lock.WriteAt(fmt.Appendf(nil, "%-*s\n", noteLength-1, text), 0)
	if isFull(err) {
		b.log.Warn("the disk is full; the next start cannot tell whether the database file was replaced",
			"path", b.path, "error", err)
		return nil
	}
	return err
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// identity distinguishes a file from all others on the machine.
func identity(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return "?"
}
