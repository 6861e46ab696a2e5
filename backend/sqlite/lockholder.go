package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holder returns the id of the process that has locked the file, or 0 if the system does not tell: only Linux does, and
// only of processes in the same container or a container of this one.
func holder(f *os.File) int {
	var file unix.Stat_t
	if unix.Fstat(int(f.Fd()), &file) != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	device := uint64(file.Dev) //nolint:unconvert // other systems have other types
	place := fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), file.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 5: FLOCK  ADVISORY  WRITE 4711 fd:00:1234567 0 EOF
		if l := strings.Fields(lines.Text()); len(l) > 5 && l[1] == "FLOCK" && l[5] == place {
			id, _ := strconv.Atoi(l[4]) // 0 if it is not one
			return id
		}
	}
	return 0
}
