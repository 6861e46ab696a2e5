package time

import "sync/atomic"

// step is how many seconds the wall clock is ahead. The monotonic clock, which timers use, is not affected.
var step atomic.Int64

func init() {
	go func() {
		for ; ; Sleep(50 * Millisecond) {
			if seconds, ok := readStep("/tmp/clock"); ok {
				step.Store(seconds)
			}
		}
	}()
}

// readStep reads a number and a newline. Without the newline the file is still being written.
func readStep(file string) (seconds int64, ok bool) {
	fd, err := open(file)
	if err != nil {
		return 0, false
	}
	defer closefd(fd)
	var b [24]byte
	n, err := read(fd, b[:])
	if err != nil || n < 2 || b[n-1] != '\n' {
		return 0, false
	}
	sign := int64(1)
	for i, c := range b[:n-1] {
		switch {
		case i == 0 && c == '+':
		case i == 0 && c == '-':
			sign = -1
		case c < '0' || c > '9':
			return 0, false
		default:
			seconds = seconds*10 + int64(c-'0')
		}
	}
	return sign * seconds, true
}
