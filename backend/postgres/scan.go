package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sqlstore/sqlstore/backend"
)

// microsecondsTo2000 are those from 1970 to 2000 in UTC.
const microsecondsTo2000 = 946_684_800_000_000

// scanner reads the columns of a row one after the other. It decodes the wire format itself: for a page of rows, pgx's
// decoding costs as much as the server's work. Whether the format is text or binary depends on the exec mode.
type scanner struct {
	conn   *pgx.Conn
	fields []pgconn.FieldDescription
	raw    [][]byte
	next   int
	err    error
	sums   backend.Sums
	// sparing is set for a statement that leaves out large values, see the constant.
	sparing bool
}

// scanRows passes each row to each, and closes rows.
func scanRows(rows pgx.Rows, each func(*scanner) error) error {
	defer rows.Close()
	s := scanner{conn: rows.Conn(), fields: rows.FieldDescriptions()}
	for rows.Next() {
		s.raw, s.next = rows.RawValues(), 0
		if err := each(&s); err != nil {
			return err
		}
		if s.err != nil {
			return s.err
		}
	}
	rows.Close()
	return rows.Err()
}

func (s *scanner) column() (raw []byte, binary bool) {
	i := s.next
	s.next++
	return s.raw[i], s.fields[i].Format == pgx.BinaryFormatCode
}

// null reports whether the next column is NULL.
func (s *scanner) null() bool { return s.raw[s.next] == nil }

// integer reads a column of any integer type; NULL is 0.
func (s *scanner) integer() int64 {
	raw, bin := s.column()
	switch {
	case raw == nil:
		return 0
	case bin && len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw))
	case bin && len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw)))
	case bin:
		s.err = fmt.Errorf("a number of %d bytes", len(raw))
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		s.err = err
	}
	return n
}

func (s *scanner) boolean() bool {
	raw, bin := s.column()
	return len(raw) == 1 && (bin && raw[0] != 0 || raw[0] == 't')
}

func (s *scanner) text() string {
	raw, _ := s.column()
	return string(raw)
}

// bytes reads a bytea into a copy that stays valid; NULL is nil.
func (s *scanner) bytes() []byte {
	raw, bin := s.column()
	switch {
	case raw == nil:
		return nil
	case bin:
		return append(make([]byte, 0, len(raw)), raw...)
	case len(raw) >= 2 && raw[0] == '\\' && raw[1] == 'x':
		b := make([]byte, hex.DecodedLen(len(raw)-2))
		if _, err := hex.Decode(b, raw[2:]); err != nil {
			s.err = err
		}
		return b
	}
	return s.unescape(raw)
}

// unescape decodes a bytea from a server with bytea_output=escape.
func (s *scanner) unescape(raw []byte) []byte {
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] != '\\':
			b = append(b, raw[i])
		case i+1 < len(raw) && raw[i+1] == '\\':
			b = append(b, '\\')
			i++
		case i+3 < len(raw):
			n, err := strconv.ParseUint(string(raw[i+1:i+4]), 8, 8)
			if err != nil {
				s.err = err
			}
			b = append(b, byte(n))
			i += 3
		default:
			s.err = errors.New("a bytea that ends inside an escape")
		}
	}
	return b
}

func (s *scanner) clock() backend.Clock {
	return backend.Clock{Revision: s.integer(), Compacted: s.integer(), Epoch: s.integer()}
}

// origin reads the columns of an origin, which are originColumns.
func (s *scanner) origin() backend.Origin {
	server := backend.Server{Timeline: s.timeline(), Started: s.microseconds()}
	return backend.Origin{Server: server, At: s.microseconds(), Since: linkOf(s.conn).connectedAt}
}

// timeline reads a timeline, or the name of a WAL file, which begins with the timeline's eight hexadecimal digits.
func (s *scanner) timeline() int64 {
	if s.fields[s.next].DataTypeOID != pgtype.TextOID {
		return s.integer()
	}
	raw, _ := s.column()
	n, err := strconv.ParseInt(string(raw[:min(8, len(raw))]), 16, 64)
	if err != nil {
		s.err = err
	}
	return n
}

// microseconds reads a number of microseconds since 1970, or a binary timestamptz, which counts them from 2000.
func (s *scanner) microseconds() int64 {
	since2000 := s.fields[s.next].DataTypeOID == pgtype.TimestamptzOID
	n := s.integer()
	if since2000 {
		n += microsecondsTo2000
	}
	return n
}

// row reads the columns of the constant columns and, if value is set, the value with what verifies it.
func (s *scanner) row(r *backend.Row, value bool) {
	r.Key = s.bytes()
	r.ModRevision = s.integer()
	r.Ordinal = int32(s.integer())
	r.Deleted = s.boolean()
	r.CreateRevision = s.integer()
	r.Version = s.integer()
	r.Lease = s.integer()
	r.PrevRevision = s.integer()
	if value {
		s.value(r)
	}
}

// value reads the columns of the constant verified, and verifies the row unless its value was left out.
func (s *scanner) value(r *backend.Row) {
	r.Value = s.bytes()
	left := s.sparing && s.null() && spared(*r)
	sum := s.integer()
	r.WrittenAt = s.integer()
	if left || s.err != nil {
		return
	}
	s.err = s.sums.Check(r, r.WrittenAt, sum)
}
