package launch

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports from which systems do not take those of outgoing connections: Linux begins at 32768, others at 49152.
const (
	firstPort = 16384
	endPort   = 32768
)

// FreeAddress returns a loopback address that nobody listened on a moment ago. A server that is down for a while gets it back:
// no client's connection can take it meanwhile, as it could take one that the system chose.
func FreeAddress() (string, error) {
	for tries := 1; ; tries++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(endPort-firstPort))))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		if tries == 100 {
			return "", fmt.Errorf("find a free port: %w", err)
		}
	}
}
