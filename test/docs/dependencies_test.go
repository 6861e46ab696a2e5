package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// CONTRIBUTING.md gives a reason for each direct dependency of the main module, and for nothing else.
func TestDependenciesHaveReasons(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var direct, reasons []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Dependencies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range dependency.FindAllStringSubmatch(section, -1) {
		reasons = append(reasons, row[1])
	}
	slices.Sort(direct)
	slices.Sort(reasons)
	if len(direct) == 0 || !slices.Equal(direct, reasons) {
		t.Errorf("CONTRIBUTING.md has reasons for\n%s\ngo.mod requires\n%s", strings.Join(reasons, "\n"),
			strings.Join(direct, "\n"))
	}
}

// dependency is a row of the table: a module and a reason.
var dependency = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|\\s][^|]* \\|$")
