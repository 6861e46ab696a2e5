package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt is returned when the database holds something that cannot have been written to it: a row that does not
// match its checksum, or that is not the row asked for. Such a row is never returned. It usually comes as a
// [CorruptRow].
var ErrCorrupt = errors.New("database is corrupt")

// CorruptRow is the [ErrCorrupt] of one row. Key and ID are as they were read, so one of them may be what is damaged.
type CorruptRow struct {
	Key []byte
	ID  RowID
}

// shownKey is how many bytes of a key a message shows.
const shownKey = 256

func (e *CorruptRow) Error() string {
	return fmt.Sprintf("%v: the row of key %q at revision %d does not match its checksum, so it is not served; "+
		"find all damage with 'sqlstore check', then restore a backup, or write or delete that key",
		ErrCorrupt, e.Key[:min(len(e.Key), shownKey)], e.ID.ModRevision)
}

func (e *CorruptRow) Unwrap() error { return ErrCorrupt }

// A row's checksum is a 64-bit integer of two CRC-32C (Castagnoli) sums. The upper half sums the head, which is the
// concatenation of
//
//	ModRevision, Ordinal, CreateRevision, Version, Lease, PrevRevision,
//	the time of the commit in milliseconds since 1970,
//	1 for a tombstone and 0 for any other row
//
// each as 8 bytes, most significant first, and the key. The lower half sums the head followed by the value; on a
// tombstone the halves are equal. Databases store the number as a signed integer. It covers every column of a row
// except, on Postgres, the batch, which no client sees.
//
// A CRC detects every error of a single bit, every burst of up to 32 bits, and all but one in four billion of the
// others.

// headInts is the number of integers in a head.
const headInts = 8

// Sums computes checksums of rows. It reuses its memory, so only one goroutine at a time may use it. The zero value is
// ready to use.
type Sums struct{ head []byte }

// Of returns the checksum of r, which must have its value. written is the time of its commit in milliseconds since
// 1970.
func (s *Sums) Of(r *Row, written int64) int64 {
	deleted := int64(0)
	if r.Deleted {
		deleted = 1
	}
	h := s.head[:0]
	for _, n := range [headInts]int64{
		r.ModRevision, int64(r.Ordinal), r.CreateRevision, r.Version, r.Lease, r.PrevRevision, written, deleted,
	} {
		h = binary.BigEndian.AppendUint64(h, uint64(n))
	}
	h = append(h, r.Key...)
	s.head = h
	head := crc32.Checksum(h, castagnoli)
	return int64(uint64(head)<<32 | uint64(crc32.Update(head, castagnoli, r.Value)))
}

// CheckHead is Check for a row that was read without its value.
func (s *Sums) CheckHead(r *Row, written, sum int64) error {
	head := *r
	head.Value = nil
	if (s.Of(&head, written)^sum)>>32 == 0 {
		return nil
	}
	return &CorruptRow{Key: r.Key, ID: r.ID()}
}

// Check returns a [CorruptRow] unless r, as it was read together with its value, has the checksum sum. A tombstone has
// no value, and every other row has one, even if it is empty.
func (s *Sums) Check(r *Row, written, sum int64) error {
	if r.Deleted == (r.Value == nil) && s.Of(r, written) == sum {
		return nil
	}
	return &CorruptRow{Key: r.Key, ID: r.ID()}
}
