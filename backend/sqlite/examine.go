package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// slowSync is how long a sync may take. Each commit waits for one; etcd gives the same figure for its log.
	slowSync = 10 * time.Millisecond
	// examineSyncs and examineTime limit the measurement of syncs.
	examineSyncs = 200
	examineTime  = 3 * time.Second
)

// Examine says whether the directory of a database's file suits it. The database may be missing or in use: it is not
// opened, and the directory is not created. If the directory exists, syncs are timed with a temporary file in it.
func Examine(ctx context.Context, path string) []backend.Finding {
	dir := filepath.Dir(path)
	const subject = "data directory"
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return []backend.Finding{{
			Severity: backend.Warning, Subject: subject, Detail: dir + " does not exist; a start creates it",
			Advice: "create it to have it examined",
		}}
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return []backend.Finding{{
			Severity: backend.Failure, Subject: subject, Detail: err.Error(), Advice: "name another directory",
		}}
	}
	all := []backend.Finding{examineMode(dir, info.Mode()), examineFileSystem(dir)}
	took, err := timeSyncs(ctx, dir)
	if err != nil {
		return append(all, backend.Finding{
			Severity: backend.Failure, Subject: "sync latency", Detail: fmt.Sprint("cannot be measured: ", err),
			Advice: adviceToWrite(err),
		})
	}
	return append(all, backend.LatencyFinding("sync latency", took, slowSync, "every commit waits for a sync; use a "+
		"faster disk, or move what else writes to it"))
}

func examineMode(dir string, mode os.FileMode) backend.Finding {
	f := backend.Finding{Subject: "data directory", Detail: fmt.Sprintf("%s, mode %s", dir, mode)}
	if mode&othersWrite != 0 {
		f.Severity, f.Advice = backend.Warning, "take the right to write from other users: chmod go-w "+dir
	}
	return f
}

// adviceToWrite says what to do about a failure to write to the data directory.
func adviceToWrite(err error) string {
	switch {
	case isFull(err):
		return "free space on the disk of the data directory"
	case errors.Is(err, syscall.EROFS):
		return "mount the file system of the data directory for writing"
	case errors.Is(err, os.ErrPermission):
		return "let this user write to the data directory"
	}
	return "find out why: a server must be able to write to the data directory"
}

// timeSyncs measures how long it takes to write 4 KiB and sync them. It returns fewer durations if they are long.
func timeSyncs(ctx context.Context, dir string) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, "sqlstore-doctor-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil { // while it is open, so that a signal leaves nothing
		return nil, err
	}
	page := bytes.Repeat([]byte{1}, 4096)
	for began := time.Now(); len(took) < examineSyncs && time.Since(began) < examineTime; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
