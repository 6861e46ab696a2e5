package sqlite

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onMessage calls f when msg is logged.
type onMessage struct {
	slog.Handler
	msg string
	f   func()
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.msg {
		h.f()
	}
	return nil
}

// makeReadOnly replaces the descriptor of a file that this process has open by one that cannot be written to.
func makeReadOnly(t *testing.T, path string) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var open, at unix.Stat_t
		if unix.Stat(filepath.Join(descriptors, e.Name()), &open) != nil || unix.Stat(path, &at) != nil ||
			open.Ino != at.Ino || open.Dev != at.Dev {
			continue
		}
		fd := 0
		for _, digit := range e.Name() {
			fd = 10*fd + int(digit-'0')
		}
		other, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Dup3(other, fd, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(other); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s is not open", path)
}

// background returns the stacks of goroutines that a backend started.
func background() (found []string) {
	all := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		for _, f := range []string{"(*checkpointer).run", "(*reserve).run", "(*Backend).watchPlace"} {
			if strings.Contains(stack, f) {
				found = append(found, stack)
			}
		}
	}
	return found
}

// A start that fails at its last step, because the lock file takes no note any more, leaves nothing running.
func TestFailedStartReleasesEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := openTest(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM")
	// The first note of a start that shares its pages comes before this message, the second at the end.
	log := slog.New(onMessage{
		slog.DiscardHandler, "database does not give space back; rewriting it once so that it does",
		func() { makeReadOnly(t, path+".lock") },
	})
	b, err := Open(t.Context(), Config{Path: path, NoPageChecksums: true, ReserveBytes: 1 << 20, Logger: log})
	if err == nil {
		_ = b.Close()
		t.Fatal("it has started")
	}
	if !strings.Contains(err.Error(), "bad file descriptor") {
		t.Error(err)
	}
	if found := background(); len(found) > 0 {
		t.Errorf("after %v still runs: %s", err, found)
	}
	if err := openTest(t, Config{Path: path}).Close(); err != nil {
		t.Errorf("the next start: %v", err)
	}
}
