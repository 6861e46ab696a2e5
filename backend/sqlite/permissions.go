package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
)

const (
	// othersWrite are the permissions to write of all but the owner.
	othersWrite os.FileMode = 0o022
	// anyoneWrites is the permission to write of all users. The group of a directory above is often the user's own.
	anyoneWrites os.FileMode = 0o002
)

// warnOfOthers warns if other users of the machine may write to the directory or the file: they could replace what is
// in it, and the log that SQLite trusts. etcd only warns, too: volumes may have modes that nobody can change.
func (b *Backend) warnOfOthers() {
	if b.cfg.Temporary {
		return
	}
	directory := filepath.Dir(b.path)
	for _, path := range []string{directory, b.path} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if info.Mode()&othersWrite != 0 {
			b.log.Warn("other users may write to the data directory or the database, and so damage or replace it: "+
				"take that right from them, with chmod go-w", "path", path, "mode", info.Mode().String())
		}
		if owner, other := otherOwner(info, os.Geteuid()); other {
			b.log.Warn("the data directory or the database belongs to another user, who may damage or replace it: "+
				"give it to the user of the server, with chown", "path", path, "owner", owner, "user", os.Geteuid())
		}
	}
	directory, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return
	}
	if path, mode, may := replaceable(directory); may {
		b.log.Warn("other users may replace the data directory, because they may write to a directory above it: "+
			"take that right from them, with chmod o-w or chmod +t", "path", path, "mode", mode.String())
	}
}

// otherOwner returns the owner of a file if it is neither the user nor root, who may write everywhere anyway.
func otherOwner(info os.FileInfo, user int) (owner uint32, other bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, st.Uid != 0 && int(st.Uid) != user
}

// replaceable returns the nearest directory above dir in which all users may rename what is not theirs.
func replaceable(dir string) (above string, mode os.FileMode, may bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", 0, false
	}
	for filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		info, err := os.Stat(dir)
		if err == nil && info.Mode()&anyoneWrites != 0 && info.Mode()&os.ModeSticky == 0 {
			return dir, info.Mode(), true
		}
	}
	return "", 0, false
}
