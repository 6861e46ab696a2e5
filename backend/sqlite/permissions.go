package sqlite

import (
	"os"
	"path/filepath"
)

// othersWrite are the permissions to write of all but the owner.
const othersWrite os.FileMode = 0o022

// warnOfOthers warns if other users of the machine may write to the directory or the file: they could replace what is
// in it, and the log that SQLite trusts. etcd only warns, too: volumes may have modes that nobody can change.
func (b *Backend) warnOfOthers() {
	if b.cfg.Temporary {
		return
	}
	for _, path := range []string{filepath.Dir(b.path), b.path} {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&othersWrite == 0 {
			continue
		}
		b.log.Warn("other users may write to the data directory or the database, and so damage or replace it: "+
			"take that right from them, with chmod go-w", "path", path, "mode", info.Mode().String())
	}
}
