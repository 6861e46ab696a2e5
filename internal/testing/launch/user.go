package launch

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// OtherThanRoot returns the user to run Postgres or PgBouncer as, because both refuse to run as root; nil for the
// current user.
func OtherThanRoot() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("neither Postgres nor PgBouncer runs as root, and there is no user postgres or nobody")
}
