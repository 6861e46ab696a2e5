package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// frameHeader is the number of bytes before the page of each frame.
const frameHeader = 24

// logHeader is the header of a WAL.
type logHeader struct {
	size  int64  // of a page in bytes
	salt  uint64 // of all frames since the WAL last started again
	big   bool   // sums are of big-endian words
	sum   pagesum.Sum
	whole bool // the header matches its own sum
}

func readLogHeader(log io.ReaderAt) (h logHeader, err error) {
	var b [walHeader]byte
	if _, err := log.ReadAt(b[:], 0); err != nil {
		return h, err
	}
	h = logHeader{
		size: int64(binary.BigEndian.Uint32(b[8:])), salt: binary.BigEndian.Uint64(b[16:]), big: b[3]&1 == 1,
		sum: sumAt(b[24:]),
	}
	h.whole = pagesum.Sum{}.Add(b[:24], h.big) == h.sum
	return h, nil
}

func sumAt(b []byte) pagesum.Sum {
	return pagesum.Sum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// pageInLog reports whether the WAL at path, if there is one, has a frame for the page.
func pageInLog(path string, number int64) (found bool, err error) {
	log, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = eachFrame(log, func(_, of int64) { found = found || of == number })
	return found, errors.Join(err, log.Close())
}

// eachFrame calls f with the offset and the page number of each frame of a WAL, and returns the page size in bytes.
func eachFrame(log io.ReaderAt, f func(at, number int64)) (size int64, err error) {
	h, err := readLogHeader(log)
	if err != nil {
		return 0, ignoreEnd(err)
	}
	for at := int64(walHeader); ; at += frameHeader + h.size {
		var frame [frameHeader]byte
		if _, err := log.ReadAt(frame[:], at); err != nil {
			return h.size, ignoreEnd(err)
		}
		if binary.BigEndian.Uint64(frame[8:]) != h.salt { // left over from before the WAL started again
			return h.size, nil
		}
		f(at, int64(binary.BigEndian.Uint32(frame[:])))
	}
}

// checkFrames refuses a WAL with a damaged frame before the end of what was synced. If commits are not synced, it
// accepts any WAL.
func (b *Backend) checkFrames() error {
	if b.synchronous() == "OFF" {
		return nil
	}
	damage, err := damageOfLog(b.path)
	if err != nil {
		return fmt.Errorf("read the write-ahead log: %w", err)
	}
	if damage != "" {
		return fmt.Errorf("%w: %s would be lost; to accept that, run sqlite3 %s 'PRAGMA wal_checkpoint(TRUNCATE)', "+
			"then 'sqlstore repair --bump-revision'", ErrCorrupt, damage, b.path)
	}
	return nil
}

// damageOfLog names what is damaged in the WAL of the file at path and the commits that SQLite drops because of it. It
// returns "" if nothing is.
func damageOfLog(path string) (damage string, err error) {
	log, err := os.Open(path + "-wal")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	h, err := readLogHeader(log)
	if err != nil {
		return "", err
	}
	if !h.whole {
		return fmt.Sprintf("the first 32 bytes of %s-wal and all commits in it", path), nil
	}
	revision, readable := revisionOfFile(path)
	if !readable {
		revision = 0
	}
	damaged, err := damagedFrame(log, revision)
	if err != nil || damaged == 0 {
		return "", err
	}
	return fmt.Sprintf("frame %d of %s-wal and later commits", damaged, path), nil
}

// damagedFrame returns the number of the first damaged frame before the end of what was synced, 0 if there is none.
// SQLite takes the first frame that does not match its sum for the end of the log, as a crash leaves it, and drops the
// commits after it. But a commit that moves the clock is synced before the next frame is written: if the log has both,
// every frame before them was whole. And the file never has a later revision than the log, because only what is synced
// in the log is copied to it.
func damagedFrame(log io.ReaderAt, inFile int64) (damaged int64, err error) {
	h, err := readLogHeader(log)
	if err != nil {
		return 0, ignoreEnd(err)
	}
	first, last := int64(0), h.sum
	revision, ended := int64(0), int64(0) // of the current transaction, and of the last one before the damage
	synced := false                       // a transaction that moved the clock has just ended, after the damage
	frame := make([]byte, frameHeader+h.size)
	for n := int64(1); ; n++ {
		if _, err := log.ReadAt(frame, walHeader+(n-1)*int64(len(frame))); err != nil {
			return lost(first, ended, inFile), ignoreEnd(err)
		}
		// A frame with another salt is left over from before the log started again, or damaged.
		whole := binary.BigEndian.Uint64(frame[8:]) == h.salt &&
			last.Add(frame[:8], h.big).Add(frame[frameHeader:], h.big) == sumAt(frame[16:])
		last = sumAt(frame[16:])
		switch {
		case !whole && first == 0:
			first = n
		case whole && synced:
			return first, nil
		}
		if whole {
			revision = max(revision, revisionInPage(frame[frameHeader:]))
		}
		ends := binary.BigEndian.Uint32(frame[4:]) != 0
		synced = whole && ends && revision != 0 && first != 0
		if ends {
			if first == 0 {
				ended = max(ended, revision)
			}
			revision = 0
		}
	}
}

// lost returns the first damaged frame if the file has a later revision than the log before that frame.
func lost(first, ended, inFile int64) int64 {
	if ended != 0 && inFile > ended {
		return first
	}
	return 0
}
