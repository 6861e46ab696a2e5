package launch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports that systems do not use for outgoing connections: Linux begins those at 32768, others at 49152.
const (
	firstPort = 16384
	endPort   = 32768
)

// claims holds the files whose locks keep this process's ports from other test processes, until it ends.
var claims struct {
	sync.Mutex
	files []*os.File
}

// FreeAddress returns a free loopback address that no other call returns, in any process of this user, while this
// process runs. A server can restart on it: no client's connection can take it in between, unlike a port that the
// system chose.
func FreeAddress() (string, error) {
	err := errors.New("all are claimed")
	for range 100 {
		port := strconv.Itoa(firstPort + rand.IntN(endPort-firstPort))
		claimed, claimErr := claim(port)
		if claimErr != nil {
			return "", fmt.Errorf("claim port %s: %w", port, claimErr)
		}
		if !claimed {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// claim reports whether the port was unclaimed. A lock on a file ends with the process, however that ends.
func claim(port string) (bool, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sqlstore-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return false, err
	}
	claims.Lock()
	defer claims.Unlock()
	claims.files = append(claims.files, f)
	return true, nil
}
