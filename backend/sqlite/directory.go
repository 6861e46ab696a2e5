package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// makeDirectories is os.MkdirAll that syncs the new names. SQLite syncs those of its files in their directory, but a
// power cut could take away the directory itself. A file system that cannot sync directories is not an error.
func (b *Backend) makeDirectories(dir string) error {
	var parents []string // of what is missing
	for d := dir; missing(d) && filepath.Dir(d) != d; d = filepath.Dir(d) {
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if b.synchronous() == "OFF" {
		return nil
	}
	for _, p := range parents {
		if err := syncDirectory(p); err != nil {
			b.log.Warn("cannot sync the directory that holds the new data directory; a power cut could remove it",
				"path", p, "error", err)
		}
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
