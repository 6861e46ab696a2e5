//go:build unix

package images

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock waits for the user's lock of this name, across all processes; it is freed when its holder dies.
func lock(name string) (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sqlstore-test-%d-%s", os.Getuid(), name))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR { //nolint:errorlint // a plain errno
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
