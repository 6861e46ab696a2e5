package sqlite

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A start warns if others than the owner may write to the directory or to the file.
func TestWarnsOfOthers(t *testing.T) {
	for _, c := range []struct {
		dir, file os.FileMode
		warned    bool
	}{
		{0o700, 0o600, false},
		{0o755, 0o644, false},
		{0o777, 0o600, true},
		{0o777 | os.ModeSticky, 0o600, true},
		{0o770, 0o600, true},
		{0o702, 0o600, true},
		{0o700, 0o666, true},
	} {
		t.Run(fmt.Sprintf("%v %v", c.dir, c.file), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "db")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for name, mode := range map[string]os.FileMode{dir: c.dir, path: c.file} {
				if err := os.Chmod(name, mode); err != nil { // past the umask
					t.Fatal(err)
				}
			}
			var out strings.Builder
			b, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if strings.Contains(out.String(), "chown") {
				t.Errorf("warned of the owner:\n%s", out.String())
			}
			if warned := strings.Contains(out.String(), "chmod go-w"); warned != c.warned {
				t.Errorf("warned: %v, want %v\n%s", warned, c.warned, out.String())
			}
		})
	}
}

// owned is what os.Stat says of a file of that owner.
type owned struct {
	os.FileInfo
	owner uint32
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: o.owner} }

// The owner of a file may write to it, whatever its mode says. That matters unless it is the server's user or root.
func TestOtherOwner(t *testing.T) {
	const user = 1000
	for owner, want := range map[uint32]bool{0: false, user: false, user + 1: true} {
		if got, other := otherOwner(owned{owner: owner}, user); other != want || other && got != owner {
			t.Errorf("a file of user %d: %d, %v", owner, got, other)
		}
	}
}

// A start warns of a directory above the data directory in which all users may rename what is not theirs.
func TestReplaceable(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	dir := filepath.Join(above, "between", "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{
		0o755: false, 0o775: false, 0o777 | os.ModeSticky: false, 0o777: true, 0o702: true,
	} {
		if err := os.Chmod(above, mode); err != nil {
			t.Fatal(err)
		}
		if got, _, may := replaceable(dir); (may && got == above) != want {
			t.Errorf("%v: %q, %v, want %v", mode, got, may, want)
		}
	}
}
