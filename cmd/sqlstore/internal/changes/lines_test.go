package changes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	from := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	for name, c := range map[string]struct{ to, want string }{
		"equal":   {from, ""},
		"changed": {"1\n2\n3\n4\nV\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+V\n 6\n 7\n 8\n"},
		"ends": {
			"0\n1\n2\n3\n4\n5\n6\n7\n8\n",
			"@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,3 @@\n 6\n 7\n 8\n-9\n",
		},
		"gone": {"", "@@ -1,9 +0,0 @@\n-1\n-2\n-3\n-4\n-5\n-6\n-7\n-8\n-9\n"},
	} {
		want := c.want
		if want != "" {
			want = "--- a\n+++ b\n" + want
		}
		if got := Unified("a", "b", from, c.to); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// patch makes one text of the other, for random texts.
func TestPatchAppliesIt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var out strings.Builder
		for range random.IntN(30) {
			fmt.Fprintln(&out, random.IntN(6))
		}
		return out.String()
	}
	for range 30 {
		from, to := text()+"end\n", text()+"end\n"
		if err := os.WriteFile(file, []byte(from), 0o600); err != nil {
			t.Fatal(err)
		}
		difference := Unified("f", "f", from, to)
		if difference == "" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--unidiff-zero", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Replace(strings.Replace(difference, "--- f", "--- a/f", 1),
			"+++ f", "+++ b/f", 1))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, difference)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != to {
			t.Fatalf("%q, want %q, %v\n%s", got, to, err, difference)
		}
	}
}

// Texts too large to compare line by line count as replaced.
func TestLargeTexts(t *testing.T) {
	var from, to strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&from, "a", i)
		fmt.Fprintln(&to, "b", i)
	}
	if n := strings.Count(Unified("a", "b", from.String(), to.String()), "\n"); n != 10_003 {
		t.Errorf("%d lines", n)
	}
}
