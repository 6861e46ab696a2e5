package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// ErrEtcdData is returned for a directory with the data of an etcd, of which sqlstore would show nothing.
var ErrEtcdData = errors.New("the data directory belongs to etcd")

// etcdMember is the directory in which etcd keeps all of a member's data.
const etcdMember = "member"

// refuseEtcdData returns [ErrEtcdData] if the server would create a SQLite file in a directory with etcd's data. It
// accepts a file that already exists.
func refuseEtcdData(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	dir := filepath.Dir(path)
	has, err := hasEtcdData(dir)
	if err != nil || !has {
		return err
	}
	return fmt.Errorf("%w: %s contains %s/, and an empty store would be served instead of it: stop etcd, and copy its "+
		"data to a directory of sqlstore's with 'sqlstore import --from %s --data-dir DIRECTORY'",
		ErrEtcdData, dir, etcdMember, dir)
}

// refuseEtcdDirectory returns [ErrEtcdData] if the database is empty and not in the data directory, but the directory
// has etcd's data: somebody has changed the datastore and expects that data in it.
func (c *Config) refuseEtcdDirectory(ctx context.Context, b backend.Backend, waiting func(error)) error {
	if c.DataDir == "" || c.inDataDir() {
		return nil
	}
	if has, err := hasEtcdData(c.DataDir); err != nil || !has {
		return nil //nolint:nilerr // nothing else needs the directory, so it need not be readable
	}
	var clock backend.Clock
	err := c.await(ctx, waiting, func() (err error) {
		clock, err = b.Clock(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("look whether the database is empty: %w", err)
	}
	if clock.Revision > 1 {
		return nil
	}
	return fmt.Errorf("%w: %s contains %s/, but the database is empty: stop etcd, and copy its data to the database "+
		"with 'sqlstore import --from %s --datastore ...', or set another %s", ErrEtcdData, c.DataDir, etcdMember,
		c.DataDir, setting.Name("DataDir"))
}

// inDataDir reports whether the database is a file in the data directory, where [refuseEtcdData] looks.
func (c *Config) inDataDir() bool {
	if c.OnPostgres() {
		return false
	}
	path, err := c.file()
	return err == nil && filepath.Dir(path) == filepath.Clean(c.DataDir)
}

// hasEtcdData reports whether a directory has an etcd's data.
func hasEtcdData(dir string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, etcdMember))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the data of an etcd: %w", err)
	}
	return info.IsDir(), nil
}
