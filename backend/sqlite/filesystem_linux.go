package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	noLocks   = "its locks and syncs are as good as its server's; use a local disk, or Postgres"
	lostEarly = "its contents are lost with the container or at a restart; use a disk or a volume"
)

// unsuitable are the file systems that a database should not be on, by their magic numbers, with what to do.
var unsuitable = map[uint32]struct{ name, advice string }{
	unix.NFS_SUPER_MAGIC:       {"NFS", noLocks},
	unix.SMB_SUPER_MAGIC:       {"SMB", noLocks},
	unix.SMB2_SUPER_MAGIC:      {"SMB", noLocks},
	unix.CIFS_SUPER_MAGIC:      {"SMB", noLocks},
	unix.V9FS_MAGIC:            {"9p", noLocks},
	unix.TMPFS_MAGIC:           {"tmpfs", lostEarly},
	unix.RAMFS_MAGIC:           {"ramfs", lostEarly},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", lostEarly},
}

// examineFileSystem says what kind the directory's file system is, and how much is free.
func examineFileSystem(dir string) backend.Finding {
	f := backend.Finding{Subject: "file system"}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		f.Severity, f.Detail, f.Advice = backend.Warning, err.Error(), "see how much is free"
		return f
	}
	f.Detail = fmt.Sprintf("%.1f GiB free of %.1f GiB", gib(st.Bavail, &st), gib(st.Blocks, &st))
	if kind, ok := unsuitable[uint32(st.Type)]; ok {
		f.Severity, f.Advice = backend.Warning, kind.advice
		f.Detail += ", on " + kind.name
	}
	return f
}

func gib(blocks uint64, st *unix.Statfs_t) float64 {
	return float64(blocks) * float64(blockSize(st)) / (1 << 30)
}
