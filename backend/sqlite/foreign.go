package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

const (
	headerMagic     = "SQLite format 3\x00"
	headerLength    = 100
	applicationIDAt = 68 // offset of the application id in a database's header, 4 bytes
)

// refuseForeign returns [ErrNotSQLStore] for a device or a pipe, which could be neither locked nor written, and for
// another program's file, before a lock file is made beside it. A file with a lock file was opened before, so the usual
// checks, which also tell damage, are enough.
func refuseForeign(path string) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return fmt.Errorf("%w (it is not a regular file)", ErrNotSQLStore)
	}
	if _, err := os.Lstat(path + ".lock"); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	f, err := pagesum.OpenFile(path, os.O_RDONLY) // this process may have it open: see that package
	if err != nil {
		return nil // a missing file is made, and the open that follows explains everything else
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	header := make([]byte, headerLength)
	switch n, err := f.ReadAt(header, 0); {
	case n == 0: // an empty file is a new database
		return nil
	case err != nil || !bytes.HasPrefix(header, []byte(headerMagic)):
		return ErrNotSQLStore
	}
	size, _, err := f.Stat()
	if err != nil {
		return err
	}
	id := binary.BigEndian.Uint32(header[applicationIDAt:])
	if empty := id == 0 && size <= pageSizeIn(header); id != applicationID && !empty {
		return ErrNotSQLStore
	}
	return nil
}
