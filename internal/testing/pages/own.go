package pages

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Own returns the flags of the command on the pages that belongs to the running test: one block, which calls program. A
// last argument of "..." stands for flags that the test adds, and is left out. The addresses and files in the flags are
// the page's; see [Replace].
func Own(t *testing.T, program string) []string {
	t.Helper()
	b := own(t)
	// A shell splits it as the reader's shell would.
	const split = `words() { printf '%s\0' "$@"; }; words `
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", split+b.Text).Output()
	if err != nil {
		t.Fatalf("%s: split the command: %v", b, err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if words[0] != program {
		t.Fatalf("%s calls %s, want %s", b, words[0], program)
	}
	if words[len(words)-1] == "..." {
		words = words[:len(words)-1]
	}
	t.Logf("%s: %q", b, words)
	return words[1:]
}

// own returns the running test's block.
func own(t *testing.T) *Block {
	t.Helper()
	var found []Block
	for _, p := range All(t) {
		found = append(found, slices.DeleteFunc(p.Blocks(), func(b Block) bool { return b.Test != t.Name() })...)
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of the pages belong to %s, want one", len(found), t.Name())
	}
	return &found[0]
}

// Replace returns the flags with each pair of strings, of the page and of the test, replaced as [strings.NewReplacer]
// does. The test fails if one of the page's strings does not occur.
func Replace(t *testing.T, flags []string, oldnew ...string) []string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if !slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, oldnew[i]) }) {
			t.Fatalf("the page's flags do not contain %s, which the test replaces: %q", oldnew[i], flags)
		}
	}
	replacer, replaced := strings.NewReplacer(oldnew...), make([]string, len(flags))
	for i, f := range flags {
		replaced[i] = replacer.Replace(f)
	}
	return replaced
}
