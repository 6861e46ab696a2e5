package pack_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pack"
)

func query(t *testing.T, q string, args ...any) (packed []byte, err error) {
	t.Helper()
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE VIEW packed AS SELECT sqlstore_pack('SELECT 1', 1, 1)"); err != nil {
		t.Fatal(err)
	}
	err = db.QueryRowContext(t.Context(), q, args...).Scan(&packed)
	return packed, err
}

func TestPack(t *testing.T) {
	large := bytes.Repeat([]byte("large"), 100_000)
	packed, err := query(t, "SELECT sqlstore_pack(?, 100, 1000000000, ?)", "VALUES (1, x'00ff'), "+
		"(-9223372036854775808, x''), (NULL, NULL), (1.5, 'text'), (x'01', 7), (0, x''), (-1, x''), (65536, x''), "+
		"(2, ?)", large)
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
		"0 true  false, -1 true  false, 65536 true  false, 2 true 6c61 false"
	if strings.Join(got, ", ") != want || !r.Ended() || r.Err() != nil || err != nil {
		t.Errorf("%s, %v, %v", got, r.Err(), err)
	}
}

func TestPackEnds(t *testing.T) {
	const all = 100
	for _, c := range []struct{ rows, bytes, after, want int }{
		{1000, 1000, 0, all},
		{101, 1000, 0, all},
		{100, 1000, 0, all},
		{99, 1000, 0, 99},
		{1, 1000, 0, 1},
		{1000, 0, 0, 1},
		{1000, 2, 0, 1},
		{1000, 3, 0, 2},
		{1000, 4, 0, 2},
		{1000, 1000, 99, 1},
		{1000, 1000, 100, 0},
	} {
		packed, err := query(t, "SELECT sqlstore_pack(?, ?, ?, ?)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "+
			"SELECT i + 1 FROM n LIMIT 100) SELECT i FROM n WHERE i > ?", c.rows, c.bytes, c.after)
		r := pack.NewReader(packed)
		got := 0
		for r.More() {
			r.Int()
			got++
		}
		ended := got == all-c.after && got < c.rows // it was asked for another row
		if got != c.want || r.Ended() != ended || r.Err() != nil || err != nil {
			t.Errorf("%+v: %d rows, ended %t, %v, %v", c, got, r.Ended(), r.Err(), err)
		}
	}
}

func TestPackFails(t *testing.T) {
	for q, want := range map[string]string{
		"SELECT sqlstore_pack('SELECT nothing', 1, 1)":                   "SQL logic error",
		"SELECT sqlstore_pack('SELECT ?', 1, 1, 2, 3)":                   "column index out of range",
		"SELECT sqlstore_pack('SELECT abs(-9223372036854775808)', 1, 1)": "SQL logic error",
		"SELECT sqlstore_pack()":                                         "bad parameter",
		"SELECT sqlstore_pack(NULL, 1, 1)":                               "bad parameter",
		// The schema of a file from elsewhere must not run statements.
		"WITH v AS (SELECT * FROM packed) SELECT * FROM v": "unsafe use",
	} {
		if packed, err := query(t, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %x, %v; want %s", q, packed, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("ne"))
	f.Add([]byte("\x0812345678e"))
	f.Add([]byte("\x011b\x01xm"))
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
