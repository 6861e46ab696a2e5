package pack_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pack"
)

func query(t *testing.T, q string, args ...any) (packed []byte) {
	t.Helper()
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), q, args...).Scan(&packed); err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestPack(t *testing.T) {
	large := bytes.Repeat([]byte("large"), 100_000)
	packed := query(t, "SELECT sqlstore_pack(1000000000, column1, column2) FROM "+
		"(VALUES (1, x'00ff'), (-9223372036854775808, x''), (NULL, NULL), (1.5, 'text'), (x'01', 7), (2, ?))", large)
	r := pack.NewReader(packed)
	var got []string
	for r.More() {
		n, ok := r.Int()
		b := r.Blob()
		got = append(got, fmt.Sprintf("%d %t %x %t", n, ok, b[:min(len(b), 2)], b == nil))
		if len(b) > 2 && !bytes.Equal(b, large) {
			t.Errorf("a blob of %d bytes", len(b))
		}
	}
	want := "1 true 00ff false, -9223372036854775808 true  false, 0 false  true, 0 false  true, 0 false  true, " +
		"2 true 6c61 false"
	if strings.Join(got, ", ") != want || r.Err() != nil {
		t.Errorf("%s, %v", got, r.Err())
	}
}

func TestPackEndsWithBytes(t *testing.T) {
	const rows = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT i FROM n)"
	for limit, want := range map[int]int{0: 1, 1: 1, 9: 1, 10: 2, 18: 2, 27: 3, 1000: 100} {
		r := pack.NewReader(query(t, "SELECT sqlstore_pack(?, i) FROM "+rows, limit))
		got := 0
		for r.More() {
			r.Int()
			got++
		}
		if got != want || r.Err() != nil {
			t.Errorf("%d bytes: %d rows, want %d; %v", limit, got, want, r.Err())
		}
	}
	if packed := query(t, "SELECT sqlstore_pack(100, i) FROM "+rows+" WHERE i > 100"); packed != nil {
		t.Errorf("no rows: %x", packed)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("n"))
	f.Add([]byte("i12345678"))
	f.Add([]byte("l\x01\x00\x00\x00\x00\x00\x00\x00bx"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		r := pack.NewReader(packed)
		for i := 0; r.More(); i++ {
			if i%2 == 0 {
				r.Int()
			} else {
				r.Blob()
			}
			if i > len(packed) {
				t.Fatal("it does not end")
			}
		}
	})
}
