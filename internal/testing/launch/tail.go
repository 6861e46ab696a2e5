package launch

import (
	"io"
	"sync"
)

// tailBytes is how much of a server's log is kept: enough for a Go panic with its goroutines.
const tailBytes = 256 << 10

// tail keeps the last tailBytes written to it and passes everything on to another writer.
type tail struct {
	also io.Writer // may be nil

	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailBytes { // cut rarely, because each cut copies
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
	}
	if t.also != nil {
		return t.also.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-tailBytes):])
}
