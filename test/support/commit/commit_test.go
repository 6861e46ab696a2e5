package commit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/commit"
)

// A shallow clone, as CI systems make it, lacks the older commit.
func TestExport(t *testing.T) {
	origin, shallow := t.TempDir(), filepath.Join(t.TempDir(), "shallow")
	file := filepath.Join(origin, "file")
	git(t, origin, "init", "--quiet")
	var hashes []string
	for _, content := range []string{"old", "new"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, origin, "add", "file")
		git(t, origin, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", content)
		hashes = append(hashes, git(t, origin, "rev-parse", "HEAD"))
	}
	git(t, origin, "clone", "--quiet", "--depth=1", "file://"+origin, shallow)
	for _, repository := range []string{origin, shallow} {
		dir := t.TempDir()
		if err := commit.Export(t.Context(), repository, hashes[0], dir); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "file"))
		if err != nil || len(entries) != 1 || string(content) != "old" {
			t.Errorf("%s: %v with %q, %v", repository, entries, content, err)
		}
	}
	if err := commit.Export(t.Context(), origin, strings.Repeat("1", 40), t.TempDir()); err == nil {
		t.Error("exported a commit that does not exist")
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
