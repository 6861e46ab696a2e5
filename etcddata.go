package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	switch info, err := os.Stat(filepath.Join(dir, etcdMember)); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the data of an etcd: %w", err)
	case !info.IsDir():
		return nil
	}
	return fmt.Errorf("%w: %s contains %s/, and an empty store would be served instead of it: stop etcd, and copy its "+
		"data to a directory of sqlstore's with 'sqlstore import --from %s --data-dir DIRECTORY'",
		ErrEtcdData, dir, etcdMember, dir)
}
