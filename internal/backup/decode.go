package backup

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// visitor gets what a file holds, in its order. Functions may be nil.
type visitor struct {
	header    func(*Header)
	auth      func(*backend.Auth)
	allLeases func()
	granted   func(id int64, ttl time.Duration)
	ended     func(id int64)
	// row must not keep the row after it returns.
	row func(*backend.Row) error
}

// decoder reads records.
type decoder struct {
	r       *bufio.Reader
	mod, at int64
	key     []byte
	value   []byte
	err     error
}

// decode calls v for each record. Errors: [ErrDamaged], those of the reader and of v.row.
func decode(from io.Reader, v *visitor) error {
	d := &decoder{r: bufio.NewReaderSize(from, payloadBuffers)}
	for {
		kind := d.byte()
		switch {
		case d.err != nil:
			return d.err
		case kind == recordEnd:
			switch _, err := d.r.ReadByte(); {
			case err == nil:
				return fmt.Errorf("%w: records follow the last one", ErrDamaged)
			case !errors.Is(err, io.EOF):
				return err
			}
			return nil
		}
		if err := d.record(kind, v); err != nil {
			return err
		}
	}
}

func (d *decoder) record(kind byte, v *visitor) error {
	switch kind {
	case recordAuth:
		a := &backend.Auth{}
		text := d.bytes(nil)
		if d.err != nil {
			return d.err
		}
		if err := json.Unmarshal(text, a); err != nil {
			return fmt.Errorf("%w: its users: %w", ErrDamaged, err)
		}
		if v.auth != nil {
			v.auth(a)
		}
	case recordLeases:
		if v.allLeases != nil {
			v.allLeases()
		}
	case recordGranted:
		if id, ttl := d.varint(), d.varint(); d.err == nil && v.granted != nil {
			v.granted(id, time.Duration(ttl)*time.Second)
		}
	case recordEnded:
		if id := d.varint(); d.err == nil && v.ended != nil {
			v.ended(id)
		}
	case recordRow:
		r := d.row()
		if d.err == nil && v.row != nil {
			return v.row(&r)
		}
	default:
		return fmt.Errorf("%w: it has a record of the unknown kind %q", ErrDamaged, kind)
	}
	return d.err
}

func (d *decoder) row() (r backend.Row) {
	r.Deleted = d.byte()&flagTombstone != 0
	r.ModRevision = d.mod + d.varint()
	r.Ordinal = int32(d.varint())
	r.WrittenAt = d.at + d.varint()
	d.key = d.bytes(d.key)
	r.Key = d.key
	if !r.Deleted {
		r.CreateRevision = r.ModRevision - d.varint()
		r.Version = d.varint()
		r.Lease = d.varint()
		d.value = d.bytes(d.value)
		r.Value = d.value
	}
	d.mod, d.at = r.ModRevision, r.WrittenAt
	return r
}

func (d *decoder) byte() byte {
	if d.err != nil {
		return 0
	}
	b, err := d.r.ReadByte()
	d.fail(err)
	return b
}

func (d *decoder) varint() int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(d.r)
	d.fail(err)
	return n
}

// bytes reads a field into memory that it reuses. The result is not nil.
func (d *decoder) bytes(into []byte) []byte {
	if d.err != nil {
		return nil
	}
	n, err := binary.ReadUvarint(d.r)
	if d.fail(err); d.err != nil {
		return nil
	}
	if n > maxFieldBytes {
		d.err = fmt.Errorf("%w: a field has %d bytes", ErrDamaged, n)
		return nil
	}
	if into == nil {
		into = make([]byte, 0, min(max(n, 256), growBytes))
	}
	into = into[:0]
	for left := int(n); left > 0 && d.err == nil; { // a length may be wrong: no memory before there is content for it
		step := min(left, growBytes)
		into = slices.Grow(into, step)
		into = into[:len(into)+step]
		_, err := io.ReadFull(d.r, into[len(into)-step:])
		d.fail(err)
		left -= step
	}
	return into
}

func (d *decoder) fail(err error) {
	if err != nil && d.err == nil {
		d.err = unreadable(cutOff(err)) // a number that is too large has no error of its own
	}
}
