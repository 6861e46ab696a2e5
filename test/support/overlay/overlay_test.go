package overlay

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A build sees a changed and an added file of the library.
func TestGo(t *testing.T) {
	dir := t.TempDir()
	const program = "package main\n\nimport \"strings\"\n\n" +
		"func main() { println(strings.Added(), strings.ToUpper(\"a\")) }\n"
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const old = "func ToUpper(s string) string {\n"
	changes := []Change{
		Replace("strings/strings.go", old, old+"\ts += \"b\"\n"),
		Add("strings/added.go", "package strings\n\nfunc Added() int { return 7 }\n"),
	}
	path := filepath.Join(dir, "program")
	if err := Go(t.Context(), dir, changes, nil, "build", "-o", path, "."); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path).CombinedOutput(); err != nil || string(out) != "7 AB\n" {
		t.Errorf("the program prints %q: %v", out, err)
	}
}

func TestPieceMustOccurOnce(t *testing.T) {
	for _, old := range []string{"no such piece", "return"} {
		err := Go(t.Context(), t.TempDir(), []Change{Replace("strings/strings.go", old, "")}, nil, "build")
		if err == nil || !strings.Contains(err.Error(), "adapt the change") {
			t.Errorf("%q: %v", old, err)
		}
	}
}
