package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

// The attempt to open a file that is open by another name leaves SQLite's locks on it. Without them, an older SQLite in
// another program takes the file for closed, and removes its log.
func TestOpenByAnotherName(t *testing.T) {
	for name, open := range map[string]func(path string) error{
		"server": func(path string) error {
			_, err := Open(t.Context(), Config{Path: path})
			return err
		},
		"tool": func(path string) error {
			return WithDatabase(t.Context(), path, func(context.Context, *sql.DB) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, link := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "link")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			if err := os.Link(path, link); err != nil {
				t.Fatal(err)
			}
			if err := open(link); !errors.Is(err, backend.ErrInUse) {
				t.Errorf("opened by another name: %v", err)
			}
			lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 0x40000000, Len: 512} // the bytes that SQLite locks
			if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
				t.Errorf("SQLite's locks are lost: %v", err)
			}
			if err := errors.Join(b.Close(), f.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
