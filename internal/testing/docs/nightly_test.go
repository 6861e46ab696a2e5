package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// The scheduled workflow runs every suite of make nightly.
func TestNightlyWorkflow(t *testing.T) {
	found := func(file, pattern string) (all []string) {
		text, err := os.ReadFile(filepath.Join(pages.Root(t), filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		if len(all) == 0 {
			t.Fatalf("%s has no suites", file)
		}
		return all
	}
	suites := found("scripts/nightly.sh", `(?m)^\t\t([a-z]+) \d+ \S+ (?:env|make) `)
	if jobs := found(".github/workflows/nightly.yml", `(?m)^          - ([a-z]+)$`); !slices.Equal(
		slices.Sorted(slices.Values(jobs)), slices.Sorted(slices.Values(suites))) {
		t.Errorf("jobs %q, suites %q", jobs, suites)
	}
}
