package images

import (
	"os/exec"
	"strings"
	"testing"
)

// build.sh gives an image the label that this package looks for.
func TestRecipe(t *testing.T) {
	want, err := recipeOf("patroni")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c",
		`here=. name=patroni; eval "$(grep ^recipe= build.sh)"; echo $recipe`).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("build.sh labels images of this recipe %q (%v), want %q", got, err, want)
	}
	if other, err := recipeOf("postgres"); err != nil || other == want {
		t.Errorf("another recipe has the label %q (%v), want a different one", other, err)
	}
}
