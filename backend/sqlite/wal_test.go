package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// TestDamagedFrame flips a bit in the log of a running server. The checkpoint that meets it must not copy it.
func TestDamagedFrame(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop() // another checkpoint would keep the one below from copying anything
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	value := incompressible(8000)
	if err := write(b, "damaged", value); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(log, value[4000:4100])
	if at < 0 {
		t.Fatal("the value is not in the log")
	}
	flipInPlace(t, path+"-wal", int64(at))
	w, ok := b.checkpoints.checkpoint(conn, "PASSIVE")
	if ok {
		t.Errorf("copied %d bytes", w.copied)
	}
	if err := write(b, "after", nil); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("write after the damage: %v", err)
	}
	if rows, err := list(t, b); err != nil || len(rows) != 301 {
		t.Errorf("%d keys, error %v", len(rows), err)
	}
	if err := conn.close(); err != nil {
		t.Error(err)
	}
}

// TestDamageBeforeTheEndOfTheLog flips bits in the log of a crash. The commits that SQLite would drop from the first
// damaged frame on were acknowledged, unless that frame belongs to the last one.
func TestDamageBeforeTheEndOfTheLog(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop() // nothing but the log has the last commit
	for i := range 20 {
		if err := write(b, fmt.Sprint("more", i), incompressible(300)); err != nil {
			t.Fatal(err)
		}
	}
	crashed := func(copied bool, damage func(size, frames int) (at int)) string {
		to := filepath.Join(t.TempDir(), "crashed")
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, path+suffix, to+suffix)
		}
		log, err := os.ReadFile(to + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		size := frameHeader + 4096
		frames := 0
		for at := walHeader; at+size <= len(log) && string(log[at+8:at+16]) == string(log[16:24]); at += size {
			frames++
		}
		log[damage(size, frames)] ^= 16
		if err := os.WriteFile(to+"-wal", log, 0o600); err != nil {
			t.Fatal(err)
		}
		if !copied {
			copyFile(t, path+".lock", to+".lock")
		}
		return to
	}
	early := crashed(false, func(size, frames int) int { return walHeader + frames/3*size + 1000 })
	wantOpenError(t, early, ErrCorrupt, "later commits would be lost")
	if problems := inspect(t, early); !strings.Contains(problems, "later commits are lost") {
		t.Errorf("problems of a damaged log: %q", problems)
	}
	if problems := inspect(t, path); problems != "" {
		t.Errorf("problems while a server runs: %q", problems)
	}
	header := crashed(false, func(size, frames int) int { return walHeader + frames/3*size + 2 })
	wantOpenError(t, header, ErrCorrupt, "later commits would be lost")
	inCopy := crashed(true, func(size, frames int) int { return walHeader + frames/3*size + 1000 })
	wantOpenError(t, inCopy, ErrCorrupt, "later commits would be lost")
	inLast := func(size, frames int) int { return walHeader + (frames-1)*size + 1000 }
	if r := revision(t, openTest(t, Config{Path: crashed(false, inLast)})); r != revision(t, b)-1 {
		t.Errorf("with a torn last commit, the file is at revision %d", r)
	}
	if _, err := b.writer.queryInts("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		t.Fatal(err)
	}
	// The file has the last one, which is behind the damage.
	for _, damage := range []func(size, frames int) int{
		inLast, func(size, frames int) int { return walHeader + frames/3*size + 1000 },
	} {
		wantOpenError(t, crashed(false, damage), ErrCorrupt, "later commits would be lost")
	}
}

// TestDamagedSaltOrHeaderOfLog flips bits that make SQLite take a frame for the end of the log, or the log for empty.
func TestDamagedSaltOrHeaderOfLog(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop() // a log that begins anew no longer leads from before to the last commit
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := write(b, fmt.Sprint("more", i), incompressible(300)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	frame := walHeader + 10*(frameHeader+4096)
	for what, at := range map[string]int{
		"nothing": -1, "magic": 1, "page size": 10, "salt": 17, "sum": 25, "first salt of a frame": frame + 9,
		"second salt of a frame": frame + 14,
	} {
		to := filepath.Join(t.TempDir(), "crashed")
		log := bytes.Clone(whole)
		if at >= 0 {
			log[at] ^= 16
		}
		if err := errors.Join(os.WriteFile(to, before, 0o600), os.WriteFile(to+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		if at >= 0 {
			wantOpenError(t, to, ErrCorrupt, "would be lost")
		} else if got, want := revision(t, openTest(t, Config{Path: to})), revision(t, b); got != want {
			t.Errorf("%s: revision %d, want %d", what, got, want)
		}
	}
}
