package pagesum_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// reference is SQLite's sum continued with data, computed one word after the other.
func reference(s pagesum.Sum, data []byte, order binary.ByteOrder) pagesum.Sum {
	for i := 0; i < len(data); i += 8 {
		s[0] += order.Uint32(data[i:]) + s[1]
		s[1] += order.Uint32(data[i+4:]) + s[0]
	}
	return s
}

// checksum is that of a page, as cksumvfs defines it.
func checksum(page []byte) (sum [pagesum.Reserved]byte) {
	s := reference(pagesum.Sum{}, page[:len(page)-pagesum.Reserved], binary.LittleEndian)
	binary.LittleEndian.PutUint32(sum[:], s[0])
	binary.LittleEndian.PutUint32(sum[4:], s[1])
	return sum
}

func TestAddContinuesASum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 9000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for length := 0; length <= len(data)-8; length += 8 {
		start, part := pagesum.Sum{random.Uint32(), random.Uint32()}, data[length%16/8:][:length]
		for order, big := range map[binary.ByteOrder]bool{binary.LittleEndian: false, binary.BigEndian: true} {
			if got, want := start.Add(part, big), reference(start, part, order); got != want {
				t.Fatalf("%d bytes, %v: sum %x, want %x", length, order, got, want)
			}
		}
	}
}

func TestSumIsThatOfCksumvfs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := 512; size <= 65536; size *= 2 {
		page := make([]byte, size)
		for range 20 {
			for i := range page {
				page[i] = byte(random.Uint32())
			}
			pagesum.Sign(page)
			if want := checksum(page); [pagesum.Reserved]byte(page[size-pagesum.Reserved:]) != want {
				t.Fatalf("%d bytes: checksum %x, want %x", size, page[size-pagesum.Reserved:], want)
			}
			if !pagesum.Valid(page) {
				t.Fatalf("%d bytes: a signed page is not valid", size)
			}
			page[random.IntN(size)] ^= 1 << random.IntN(8)
			if pagesum.Valid(page) {
				t.Fatalf("%d bytes: a page with a flipped bit is valid", size)
			}
		}
	}
}

// open opens the database at path, with checksums if it is new.
func open(t *testing.T, path, parameters string) *sql.DB {
	t.Helper()
	sums := &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		return c.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_RESERVE_BYTES, pagesum.Reserved)
	}}
	db := sql.OpenDB(connector{sums, "file:" + path + "?vfs=" + pagesum.VFS + parameters})
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) " +
	"INSERT INTO t SELECT i, hex(randomblob(100 + i % 300)) FROM n"

func isDamaged(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == pagesum.ErrCode
}

// flip flips one bit of the file and returns a function that flips it back.
func flip(t *testing.T, path string, at int64, bit int) (restore func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	change := func() {
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 << bit
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	change()
	return func() {
		change()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlippedBit flips bits of a database file. A statement that reads everything never succeeds with a wrong result,
// and fails if the flip is in a page that it reads.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)",
		"CREATE INDEX i ON t (v)", fill, "DELETE FROM t WHERE id % 7 = 0", "PRAGMA wal_checkpoint(TRUNCATE)")
	want := mustRead(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	damaged := 0
	for range 120 {
		at, bit := random.Int64N(info.Size()), random.IntN(8)
		restore := flip(t, path, at, bit)
		db := open(t, path, "")
		got, err := read(db)
		switch {
		case isDamaged(err):
			damaged++
		case err == nil && got != want:
			t.Errorf("bit %d of byte %d: %q, want %q", bit, at, got, want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		restore()
	}
	if damaged < 90 {
		t.Errorf("%d of 120 flipped bits were detected, want at least 90", damaged)
	}
}

// TestReservedBytesAreVerified flips the bits that say whether the file has checksums.
func TestReservedBytesAreVerified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, "")
	run(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", fill)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 {
		restore := flip(t, path, 20, bit)
		db := open(t, path, "")
		if _, err := read(db); err == nil {
			t.Errorf("bit %d: no error", bit)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		restore()
	}
}

// TestFlippedBitInLog flips bits of a log while its database is open. Neither a read nor a checkpoint may use them.
func TestFlippedBitInLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	writer, reader := open(t, path, ""), open(t, path, "")
	run(t, writer, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "CREATE INDEX i ON t (v)", fill)
	want := mustRead(t, reader)
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	damaged := 0
	for range 100 {
		at, bit := random.Int64N(info.Size()), random.IntN(8)
		restore := flip(t, path+"-wal", at, bit)
		// A new connection has an empty cache.
		other := open(t, path, "")
		got, err := read(other)
		switch {
		case isDamaged(err):
			damaged++
			if _, err := other.Exec("PRAGMA wal_checkpoint(PASSIVE)"); !isDamaged(err) {
				t.Fatalf("checkpoint with bit %d of byte %d of the log flipped: %v", bit, at, err)
			}
		case err == nil && got != want:
			t.Errorf("bit %d of byte %d: %q, want %q", bit, at, got, want)
		case err != nil:
			t.Error(err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		restore()
	}
	if damaged < 50 {
		t.Errorf("%d of 100 flipped bits were detected, want at least 50", damaged)
	}
	run(t, writer, "PRAGMA wal_checkpoint(TRUNCATE)")
	if got := mustRead(t, writer); got != want {
		t.Errorf("after the checkpoint: %q, want %q", got, want)
	}
}

// TestLogOfAnotherProcess reads a log whose frames this process has not written, so that it does not know their sums.
func TestLogOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", fill)
	want := mustRead(t, db)
	copied := filepath.Join(t.TempDir(), "copy")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, copied, "")
	run(t, other, "PRAGMA wal_autocheckpoint = 0")
	if got := mustRead(t, other); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	info, err := os.Stat(copied + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	defer flip(t, copied+"-wal", info.Size()/2, 3)()
	if _, err := read(open(t, copied, "")); !isDamaged(err) {
		t.Errorf("a flipped bit in the log: %v", err)
	}
}

// TestLargeTransaction writes more than fits into the cache, so that SQLite rewrites pages in the log before the
// commit, and writes their sums only at the commit.
func TestLargeTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA cache_size = 10", "PRAGMA wal_autocheckpoint = 0",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "CREATE INDEX i ON t (v)", fill)
	for range 3 {
		run(t, db, "BEGIN", "UPDATE t SET v = hex(randomblob(50 + id % 400))", "SAVEPOINT s",
			"UPDATE t SET v = hex(randomblob(50 + id % 400)) WHERE id % 3 = 0", "ROLLBACK TO s",
			"UPDATE t SET v = hex(randomblob(50 + id % 400)) WHERE id % 2 = 0")
		want := mustRead(t, db)
		wantRead := func(when string, db *sql.DB) {
			t.Helper()
			if got := mustRead(t, db); got != want {
				t.Errorf("%s, the rows are others", when)
			}
		}
		run(t, db, "COMMIT")
		wantRead("after the commit", open(t, path, ""))
		run(t, db, "BEGIN", "UPDATE t SET v = hex(randomblob(50 + id % 400))", "ROLLBACK")
		wantRead("after a rollback", open(t, path, ""))
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		wantRead("after a checkpoint", db)
	}
}

// TestPageWrittenAgain changes all pages several times in one transaction whose pages do not fit into the cache. It
// needs no new page, so SQLite rewrites the page of the last frame without writing a header in between.
func TestPageWrittenAgain(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"), "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA cache_size = 10", "PRAGMA wal_autocheckpoint = 0",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "+
			"FROM n WHERE i < 200) INSERT INTO t SELECT i, hex(randomblob(700)) FROM n", "BEGIN")
	for range 4 {
		run(t, db, "UPDATE t SET v = hex(randomblob(700))")
	}
	want := mustRead(t, db)
	run(t, db, "COMMIT", "PRAGMA wal_checkpoint(TRUNCATE)")
	if got := mustRead(t, db); got != want {
		t.Error("after a checkpoint, the rows are others")
	}
}

// oneValue creates a log with one transaction, which writes a value of several pages.
func oneValue(t *testing.T) (path string, value []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	db := open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE t (v BLOB)",
		"PRAGMA wal_checkpoint(TRUNCATE)", "INSERT INTO t VALUES (randomblob(40000))")
	if err := db.QueryRow("SELECT v FROM t").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return path, value
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(with, at)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantDamage checks that neither a read nor a checkpoint uses the log.
func wantDamage(t *testing.T, path string) {
	t.Helper()
	db := open(t, path, "")
	var value []byte
	if err := db.QueryRow("SELECT v FROM t").Scan(&value); !isDamaged(err) {
		t.Errorf("read: %v", err)
	}
	if _, err := db.Exec("PRAGMA wal_checkpoint(PASSIVE)"); !isDamaged(err) {
		t.Errorf("checkpoint: %v", err)
	}
}

// TestZerosInLog overwrites a frame and its header with zeros, as a lost block does.
func TestZerosInLog(t *testing.T) {
	path, value := oneValue(t)
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const header, size = 32, 24 + 4096
	at := bytes.Index(log, value[20000:20100])
	if at < 0 {
		t.Fatal("the value is not in the log")
	}
	overwrite(t, path+"-wal", int64(at-(at-header)%size), make([]byte, size))
	wantDamage(t, path)
}

// TestZerosBehindACheckpoint overwrites the last frame that a checkpoint has copied, and those after it. The sum of
// zeros is zero, so that they match each other.
func TestZerosBehindACheckpoint(t *testing.T) {
	path, _ := oneValue(t)
	db, reader := open(t, path, ""), open(t, path, "")
	reader.SetMaxOpenConns(1)
	run(t, reader, "BEGIN", "SELECT count(*) FROM t") // so that the log goes on after the checkpoint
	run(t, db, "PRAGMA wal_checkpoint(PASSIVE)")
	copied, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, "INSERT INTO t VALUES (randomblob(40000))")
	run(t, reader, "COMMIT")
	const size = 24 + 4096
	overwrite(t, path+"-wal", copied.Size()-size, make([]byte, 5*size))
	if _, err := db.Exec("PRAGMA wal_checkpoint(PASSIVE)"); !isDamaged(err) {
		t.Errorf("checkpoint: %v", err)
	}
}

// TestLogCutOff cuts a log off while its database is open. It is neither read nor written behind the gap.
func TestLogCutOff(t *testing.T) {
	for _, rest := range []int64{0, 32, 4096, 32 + 24 + 4096} {
		path, _ := oneValue(t)
		writer := open(t, path, "")
		if _, err := writer.Exec("INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path+"-wal", rest); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Exec("INSERT INTO t VALUES (2)"); !isDamaged(err) {
			t.Errorf("write behind %d bytes: %v", rest, err)
		}
		if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != rest {
			t.Errorf("the log has become longer, %v", err)
		}
		wantDamage(t, path)
	}
}

// TestDamagedStartOfLog overwrites the first block, which contains the header of the log.
func TestDamagedStartOfLog(t *testing.T) {
	for _, with := range []byte{0, 0xff} {
		path, _ := oneValue(t)
		overwrite(t, path+"-wal", 0, bytes.Repeat([]byte{with}, 4096))
		wantDamage(t, path)
	}
}

// TestVacuumInto makes a copy with checksums of a database that has none. The copy does not fit into the cache.
func TestVacuumInto(t *testing.T) {
	dir := t.TempDir()
	plain, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, plain, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "CREATE INDEX i ON t (v)", fill)
	want := mustRead(t, plain)
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, filepath.Join(dir, "plain"), "")
	if got := mustRead(t, db); got != want {
		t.Errorf("without checksums: %q, want %q", got, want)
	}
	copied := filepath.Join(dir, "copy")
	run(t, db, "PRAGMA cache_size = 10", fmt.Sprintf("VACUUM INTO 'file:%s?summed=1'", copied))
	if got := mustRead(t, open(t, copied, "")); got != want {
		t.Errorf("the copy: %q, want %q", got, want)
	}
	pages, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pages); i += 4096 {
		if !pagesum.Valid(pages[i : i+4096]) {
			t.Fatalf("page %d of the copy has no valid checksum", i/4096+1)
		}
	}
}
