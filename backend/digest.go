package backend

import "hash/crc32"

// Digest describes a value without it.
type Digest struct {
	CRC  uint32 // CRC-32C (Castagnoli)
	Size int64
}

// DigestOf returns the digest of a value.
func DigestOf(value []byte) Digest {
	return Digest{CRC: crc32.Checksum(value, castagnoli), Size: int64(len(value))}
}

// DigestQuery asks for digests in the order in which the rows were written. Its fields are those of [HistoryQuery].
type DigestQuery struct {
	After, Until int64
	Limit        int
	Bytes        int64
	Pin          int64
	// Into is memory for the rows of the answer, which overwrite it; nil if there is none.
	Into []Digested
}

// Digested is a row without its value, and the digest of that; on a tombstone it is zero.
type Digested struct {
	Row    Row
	Digest Digest
}

// Digests is the answer to a [DigestQuery].
type Digests struct {
	Clock Clock
	Rows  []Digested
	// Through is the revision up to which Rows is complete; at least After.
	Through int64
	// Purged is a revision: each row below it that is returned is the newest of its key there.
	Purged int64
}

// Digest returns the digest of the value of r, which was read without it, from the row's checksum and the size of the
// value: the halves of the checksum differ by the value. Error: a [CorruptRow] if r does not match the checksum. The
// value itself is not verified.
func (s *Sums) Digest(r *Row, written, sum, size int64) (Digest, error) {
	if err := s.CheckHead(r, written, sum); err != nil {
		return Digest{}, err
	}
	d := Digest{CRC: AppendCRC(uint32(uint64(sum)>>32), uint32(uint64(sum)), size), Size: size}
	if size == 0 && d.CRC != 0 {
		return Digest{}, &CorruptRow{Key: r.Key, ID: r.ID()}
	}
	return d, nil
}
