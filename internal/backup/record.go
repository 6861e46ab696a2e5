package backup

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"hash/crc64"
	"io"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// The payload is a sequence of records: one byte for the kind, and what that needs. Numbers are varints. Revisions and
// times of rows are differences from those of the row before.
const (
	recordAuth     = 'A' // users and roles, as JSON with its length
	recordLeases   = 'S' // the leases that follow are all that there are
	recordGranted  = 'L' // a lease: its id, and its TTL in seconds
	recordEnded    = 'E' // the id of a lease that no longer exists
	recordRow      = 'R'
	recordEnd      = 'Z'
	flagTombstone  = 1
	maxFieldBytes  = 1 << 30
	growBytes      = 4 << 20
	payloadBuffers = 256 << 10
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// tail computes [Footer.Tail].
type tail struct {
	revision int64
	sum      uint64
}

func (t *tail) add(r *backend.Row) {
	if r.ModRevision != t.revision {
		t.revision, t.sum = r.ModRevision, 0
	}
	var head [18]byte
	binary.BigEndian.PutUint64(head[:], uint64(r.ModRevision))
	binary.BigEndian.PutUint32(head[8:], uint32(r.Ordinal))
	binary.BigEndian.PutUint32(head[12:], uint32(len(r.Key)))
	if r.Deleted {
		head[16] = 1
	}
	t.sum = crc64.Update(t.sum, crcTable, head[:])
	t.sum = crc64.Update(t.sum, crcTable, r.Key)
	t.sum = crc64.Update(t.sum, crcTable, r.Value)
}

// of returns the tail of a revision.
func (t *tail) of(revision int64) uint64 {
	if t.revision != revision {
		return 0
	}
	return max(t.sum, 1)
}

// encoder writes records.
type encoder struct {
	w       *bufio.Writer
	buf     []byte
	mod, at int64
	tail    tail
	footer  Footer
}

func newEncoder(w io.Writer) *encoder {
	return &encoder{w: bufio.NewWriterSize(w, payloadBuffers)}
}

func (e *encoder) flush() error {
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}

func (e *encoder) auth(a *backend.Auth) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	e.buf = binary.AppendUvarint(append(e.buf, recordAuth), uint64(len(text)))
	e.buf = append(e.buf, text...)
	return e.flush()
}

func (e *encoder) allLeases() error {
	e.buf = append(e.buf, recordLeases)
	return e.flush()
}

func (e *encoder) granted(id int64, ttl time.Duration) error {
	e.buf = binary.AppendVarint(append(e.buf, recordGranted), id)
	e.buf = binary.AppendVarint(e.buf, int64(ttl/time.Second))
	return e.flush()
}

func (e *encoder) ended(id int64) error {
	e.buf = binary.AppendVarint(append(e.buf, recordEnded), id)
	return e.flush()
}

func (e *encoder) row(r *backend.Row) error {
	flags := byte(0)
	if r.Deleted {
		flags |= flagTombstone
	}
	b := append(e.buf, recordRow, flags)
	b = binary.AppendVarint(b, r.ModRevision-e.mod)
	b = binary.AppendVarint(b, int64(r.Ordinal))
	b = binary.AppendVarint(b, r.WrittenAt-e.at)
	b = binary.AppendUvarint(b, uint64(len(r.Key)))
	b = append(b, r.Key...)
	if !r.Deleted {
		b = binary.AppendVarint(b, r.ModRevision-r.CreateRevision)
		b = binary.AppendVarint(b, r.Version)
		b = binary.AppendVarint(b, r.Lease)
		b = binary.AppendUvarint(b, uint64(len(r.Value)))
	}
	e.buf, e.mod, e.at = b, r.ModRevision, r.WrittenAt
	e.tail.add(r)
	e.footer.Rows++
	e.footer.Bytes += r.Size()
	if err := e.flush(); err != nil || r.Deleted {
		return err
	}
	_, err := e.w.Write(r.Value)
	return err
}

// end ends the payload, and returns the footer for a file up to a revision.
func (e *encoder) end(revision int64) (Footer, error) {
	e.buf = append(e.buf, recordEnd)
	err := e.flush()
	if err == nil {
		err = e.w.Flush()
	}
	e.footer.Tail = e.tail.of(revision)
	return e.footer, err
}
