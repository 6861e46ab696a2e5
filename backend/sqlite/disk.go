package sqlite

import "golang.org/x/sys/unix"

// freeBytes returns the free space, in bytes, that the directory's file system has for this process.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * blockSize(&st), nil
}
