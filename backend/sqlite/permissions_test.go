package sqlite

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
			if warned := strings.Contains(out.String(), "chmod go-w"); warned != c.warned {
				t.Errorf("warned: %v, want %v\n%s", warned, c.warned, out.String())
			}
		})
	}
}
