package sqlite

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// provideTempDir makes SQLite create its temporary files in dir if the process can write to none of the directories
// where SQLite would, as in a container whose only writable directory is the database's.
func provideTempDir(dir string) {
	for _, d := range []string{os.Getenv("SQLITE_TMPDIR"), os.Getenv("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp"} {
		if d != "" && unix.Access(d, unix.W_OK|unix.X_OK) == nil {
			return
		}
	}
	pagesum.UseTempDir(dir)
}
