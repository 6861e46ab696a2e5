package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	partialPrefix = "partial-"
	// abandoned is how long after the last write a partial file is that of a process which has ended.
	abandoned = 10 * time.Minute
)

// localFile is a file of a directory on this machine. It gets its name only once its content is on the disk, so that a
// power cut leaves no file with a name and without its content.
type localFile struct {
	*os.File

	ctx      context.Context
	dir      string // the repository's
	path     string
	unsynced int // bytes
}

// syncBytes is how much is written before it is synced: all at once, it would delay the store's own syncs.
const syncBytes = 4 << 20

// Write implements [io.Writer].
func (f *localFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.unsynced += n; err == nil && f.unsynced >= syncBytes {
		f.unsynced = 0
		err = f.Sync()
	}
	return n, err
}

func (r *Repository) createLocal(ctx context.Context, name Name) (*localFile, error) {
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), partialPrefix)
	if err != nil {
		return nil, err
	}
	return &localFile{File: f, ctx: ctx, dir: r.Dir, path: path}, nil
}

func (r *Repository) path(name Name) string {
	return filepath.Join(r.Dir, filepath.FromSlash(name.String()))
}

// Close completes the file, or removes it if its context has ended.
func (f *localFile) Close() error {
	err := f.ctx.Err()
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.File.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	for _, dir := range []string{filepath.Dir(f.path), f.dir} {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// clean removes what killed processes have left of the chains that are mine: partial files, and empty directories.
func (r *Repository) clean(mine func(chain string) bool) error {
	if r.Dir == "" {
		return nil
	}
	dirs, err := os.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range dirs {
		if isChain(d.Name()) && mine(d.Name()) {
			errs = append(errs, cleanDir(filepath.Join(r.Dir, d.Name())))
		}
	}
	return errors.Join(errs...)
}

func cleanDir(path string) error {
	dir, err := os.Stat(path)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	left := len(files)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), partialPrefix) {
			continue
		}
		info, err := f.Info()
		if err == nil && time.Since(info.ModTime()) > abandoned {
			err = os.Remove(filepath.Join(path, f.Name()))
			left--
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if left > 0 || time.Since(dir.ModTime()) < abandoned {
		return nil
	}
	return os.Remove(path)
}
