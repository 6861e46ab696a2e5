package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestByteaArrays compares with pgx's own codec.
func TestByteaArrays(t *testing.T) {
	own := pgtype.NewMap()
	theirs, _ := own.TypeForOID(pgtype.ByteaArrayOID)
	own.RegisterType(&pgtype.Type{Name: theirs.Name, OID: theirs.OID, Codec: byteaArrays{theirs.Codec}})
	for _, value := range [][][]byte{nil, {}, {nil}, {{}}, {[]byte("a"), nil, {}, bytes.Repeat([]byte{0, 255}, 5000)}} {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			before := []byte("before")
			got, err := own.Encode(pgtype.ByteaArrayOID, format, value, bytes.Clone(before))
			if err != nil {
				t.Fatal(err)
			}
			want, err := pgtype.NewMap().Encode(pgtype.ByteaArrayOID, format, value, bytes.Clone(before))
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%q in format %d: %q, want %q, %v", value, format, got, want, err)
			}
		}
	}
}
