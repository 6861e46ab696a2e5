package bitrot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore"
)

const (
	databaseFile = "sqlstore.db"
	logFile      = databaseFile + "-wal"
)

// lastCommit returns where the last commit of a write-ahead log begins.
func lastCommit(t *testing.T, path string) (at int64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || len(raw) == 0 {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	// The header of the log has 32 bytes, that of a frame 24: the number of its page, the size of the database if the
	// frame ends a commit, and two salts, which are those of the log.
	const header, frameHeader = 32, 24
	step := frameHeader + int(binary.BigEndian.Uint32(raw[8:]))
	begins := int64(header)
	for i := header; i+step <= len(raw) && bytes.Equal(raw[i+8:i+16], raw[16:24]); i += step {
		if binary.BigEndian.Uint32(raw[i+4:]) != 0 {
			at, begins = begins, int64(i+step)
		}
	}
	return at
}

func TestSQLite(t *testing.T) {
	for name, withLog := range map[string]bool{"Closed": false, "WithLog": true} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			p := &place{dir: filepath.Join(dir, "data"), sound: filepath.Join(dir, "sound")}
			nothing := func() error { return nil }
			p.up, p.down = nothing, nothing
			p.config = sqlstore.Config{
				DataDir: p.dir, CacheBytes: 1, WatchProgressInterval: 100 * time.Millisecond, DiskReserveBytes: -1,
			}
			p.truth = write(t, p.config, func() {}, func() {
				if withLog { // as after a crash
					if err := copyFiles(p.dir, p.sound); err != nil {
						t.Fatal(err)
					}
				}
			})
			if !withLog {
				if err := copyFiles(p.dir, p.sound); err != nil {
					t.Fatal(err)
				}
			}
			p.files = existing(p.sound, []*file{
				{path: databaseFile, name: "file", objects: true}, {path: logFile, name: "log", objects: true},
			})
			last := lastCommit(t, filepath.Join(p.sound, logFile))
			p.undetected = func(f *flip, running bool) bool {
				return f.file.path == logFile && f.offset >= last && !running
			}
			rot(t, p)
		})
	}
}
