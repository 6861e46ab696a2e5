package sqlite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	// noteLength is the length of a note, more than it needs, in bytes.
	noteLength = 120
	// notePeriod is the minimum time between two notes by the checkpointer. A note is not part of a commit.
	notePeriod = time.Second

	// ownPages marks the note of a program that maintains the checksums of pages.
	ownPages = "checksums"
	// sharedPages marks that of one that lets others write pages without them.
	sharedPages = "shared"
	// unknownPages marks that of a start that has not verified the pages yet.
	unknownPages = "unknown"
	// foreignPages begins that of a server that has stopped using the file because another program has written to it.
	// The revision follows that the server had left in the file.
	foreignPages = "foreign:"
)

// note is the note in the lock file: who maintains the checksums of pages, the file as it was left without a log, and
// what the store has reached. The zero value stands for none.
type note struct {
	owner, file string
	reached
}

// readNote returns the note. An interrupted write may have mixed two: then there is none.
func readNote(lock io.ReaderAt) (n note, err error) {
	text := make([]byte, noteLength)
	read, err := lock.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read the note in the lock file: %w", err)
	}
	var sum uint32
	fields, _ := fmt.Sscan(string(text[:read]), &n.owner, &n.file, &n.cluster, &n.revision, &sum)
	if fields != 5 || sum != crc32.ChecksumIEEE([]byte(n.String())) {
		return note{}, nil
	}
	return n, nil
}

// String returns the note as text without its checksum.
func (n note) String() string {
	return fmt.Sprint(n.owner, " ", n.file, " ", n.cluster, " ", n.revision)
}

func (n note) write(lock io.WriterAt) error {
	text := fmt.Sprint(n, " ", crc32.ChecksumIEEE([]byte(n.String())))
	_, err := lock.WriteAt(fmt.Appendf(nil, "%-*s\n", noteLength-1, text), 0)
	return err
}

// closedFile identifies the state of a file without a log, which changes when a program writes to it.
func closedFile(size int64, modified time.Time) string {
	return fmt.Sprintf("%d:%d", size, modified.UnixNano())
}

// writtenHere reports whether only this program has written to the file at path, so that its pages must match their
// checksums. Another program does not update them: sqlite3 in the copies that it makes, or when it copies the log that
// a crash has left. filled says that there is a log with commits, which belong to the file.
func (n note) writtenHere(path string, filled bool) bool {
	file, err := os.Stat(path)
	if err != nil || file.Size() == 0 {
		return err == nil || errors.Is(err, os.ErrNotExist)
	}
	return n.owner == ownPages && (filled || n.file == closedFile(file.Size(), file.ModTime()))
}

// note writes a note of noteLength. A full disk must not keep the server from starting, because only a running server
// can free space in the database.
func (b *Backend) note(owner string) error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return b.writeNote(owner)
}

// noteUnlessBroken is note with the owner of a file that is in use. It leaves the note of a backend that has stopped
// writing.
func (b *Backend) noteUnlessBroken() error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	if b.broken.Load() != nil {
		return nil
	}
	return b.writeNote(b.owner())
}

// noteForeign is note for a file that another program has replaced or written to.
func (b *Backend) noteForeign() error {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return b.writeNote(b.foreignOwner())
}

// writeNote is note with the content's mutex held. It describes the file as this process left it: another program may
// have written to it since.
func (b *Backend) writeNote(owner string) error {
	err := note{owner, b.content.state, b.reached()}.write(b.lock)
	if isFull(err) {
		b.log.Warn("the disk is full; the next start cannot tell who has written the database file",
			"path", b.path, "error", err)
		return nil
	}
	return err
}

// owner returns what the note says about the checksums of pages.
func (b *Backend) owner() string {
	if b.cfg.NoPageChecksums {
		return sharedPages
	}
	return ownPages
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
