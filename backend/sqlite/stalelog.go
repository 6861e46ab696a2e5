package sqlite

import (
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
	noteLength = 180
)

// checkLog checks whether the log that a crash has left belongs to the file. The lock file names the files that were in
// use together.
func (b *Backend) checkLog() error {
	log, err := os.Stat(b.path + "-wal")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the write-ahead log: %w", err)
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
	file, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	n, err := readNote(b.lock)
	if err != nil {
		return err
	}
	// Without a note, the log is from an older program or an interrupted start. If both were copied, both are new.
	sameFile, sameLog := n.file == identity(file), n.log == identity(log)
	if sameLog && !sameFile {
		return fmt.Errorf("%w: %s-wal", ErrStaleLog, b.path)
	}
	if sameLog && n.root != 0 {
		if err := b.checkCopy(n.held, n.root); err != nil {
			return err
		}
	}
	return b.checkFrames()
}

// note is the note in the lock file: which files are in use together, the revision that the file holds, the page of its
// clock, who maintains checksums of pages, and what the store has reached. Fields that an older program did not write
// are zero.
type note struct {
	file, log  string
	held, root int64
	owner      string
	reached
}

func readNote(lock io.ReaderAt) (n note, err error) {
	text := make([]byte, noteLength)
	read, err := lock.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read the note in the lock file: %w", err)
	}
	var sum uint32
	// An old note is shorter.
	_, _ = fmt.Sscan(string(text[:read]), &n.file, &n.log, &n.held, &n.root, &n.owner, &n.cluster, &n.revision, &sum)
	if sum != n.sum() { // an interrupted write may have mixed two revisions
		n.reached = reached{}
	}
	return n, nil
}

// noFiles begins a note that names no files.
const noFiles = "- - 0 0 -"

// forgetFiles removes the files from the note while they may change. The note keeps its length, because the disk may be
// full.
func (b *Backend) forgetFiles() error {
	info, err := b.lock.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	return b.note(noFiles)
}

// noteFiles records in the lock file which files are in use together.
func (b *Backend) noteFiles() error {
	file, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	log, err := os.Stat(b.path + "-wal")
	if err != nil {
		return err
	}
	b.files = identity(file) + " " + identity(log)
	return b.noteHeld(b.writer, 0)
}

// noteHeld adds to the names of the files the revision that the file holds, and the page of its clock.
func (b *Backend) noteHeld(c *conn, revision int64) error {
	root, err := c.queryInt("SELECT rootpage FROM sqlite_schema WHERE name = 'clock'")
	if err != nil {
		return err
	}
	return b.note(fmt.Sprint(b.files, " ", revision, " ", root, " ", b.owner()))
}

// note writes a note of noteLength: text, and what the store has reached. A full disk must not keep the server from
// starting, because only a running server can free space in the database.
func (b *Backend) note(text string) error {
	r := b.reached()
	text = fmt.Sprint(text, " ", r.cluster, " ", r.revision, " ", r.sum())
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
