package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// The pages' commands that need only sqlstore and the machine's own tools work.
func TestCommands(t *testing.T) { pages.Run(t, pages.Unit, pages.Setup{}) }

// Every block has a known language and belongs to a suite that runs it, or to a test that takes its flags. Text is no
// place for commands, which would not run.
func TestBlocksAreRun(t *testing.T) {
	languages := []string{"sh", "console", "sql", "go", "text", "yaml", "ini", "mermaid"}
	owners := owners(t)
	for _, p := range pages.All(t) {
		for _, b := range p.Blocks() {
			if b.Language == "text" && command.MatchString(b.Text) {
				t.Errorf("%s calls %q in a block of text, want sh", &b, command.FindString(b.Text))
			}
			if b.Test != "" && (b.Language != "sh" || !slices.Contains(owners, b.Test)) {
				t.Errorf("%s of %q names %s, want sh and one of the tests that call pages.Own: %q",
					&b, b.Language, b.Test, owners)
			}
			if !slices.Contains(languages, b.Language) {
				t.Errorf("%s is a block of %q, want one of %q", &b, b.Language, languages)
			}
			if !slices.Contains(pages.Suites, b.Suite) {
				t.Errorf("%s is of the suite %q, want one of %q", &b, b.Suite, pages.Suites)
			}
		}
		// An indented block would be code that nothing runs.
		if indented.MatchString(outsideFences(&p)) {
			t.Errorf("%s has an indented block, want a fenced one: %q", p.Name, indented.FindString(outsideFences(&p)))
		}
	}
}

var command = regexp.MustCompile(
	`(?m)^\s*(\$ |(cd|curl|docker|etcdctl|etcdutl|git|go|helm|kube[a-z-]+|make|psql|sqlite3|sqlstore) ).*`)

// etcd's tools that the pages call are built by make.
func TestToolsAreBuilt(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(pages.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	called := regexp.MustCompile(`(?m)^\s*(?:\$ )?(etcd[a-z]+) `)
	for _, p := range pages.All(t) {
		for _, b := range p.Blocks() {
			for _, m := range called.FindAllStringSubmatch(b.Text, -1) {
				if !regexp.MustCompile(`(?m)^([a-z]+ )*` + m[1] + `[ :]`).Match(makefile) {
					t.Errorf("%s calls %s, and no target builds it", &b, m[1])
				}
			}
		}
	}
}

// owners returns the names of the tests that take flags from the pages.
func owners(t *testing.T) (names []string) {
	t.Helper()
	test := regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{$(.*?)^\}$`)
	err := filepath.WalkDir(filepath.Join(pages.Root(t), "test"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range test.FindAllStringSubmatch(string(code), -1) {
			if strings.Contains(m[2], "pages.Own(t,") {
				names = append(names, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var indented = regexp.MustCompile(`(?m)\n\n    +[^\s*-].*$`)

// outsideFences returns the page's text without its fenced blocks.
func outsideFences(p *pages.Page) string {
	return regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```$").ReplaceAllString(p.Text, "")
}

// Go code on a page is part of an example or a test, whatever its indentation.
func TestGoCompiles(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "sqlstoretest/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(pages.Root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.WriteString(flat(string(text)))
		}
	}
	for _, p := range pages.All(t) {
		for _, b := range p.Blocks() {
			if b.Language == "go" && !strings.Contains(code.String(), flat(b.Text)) {
				t.Errorf("%s is not the code of any example or test", &b)
			}
		}
	}
}

// flat removes the indentation of code.
func flat(code string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "") }

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)|(?:src|srcset)="([^"]+)"`)

// Links to other pages, headings and files resolve.
func TestLinks(t *testing.T) {
	root := pages.Root(t)
	all := pages.All(t)
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(outsideFences(&p), -1) {
			path, anchor := m[1]+m[3], m[2]
			if strings.Contains(path, "://") {
				continue
			}
			target := p.Name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(p.Name), path))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", p.Name, m[0], err)
				continue
			}
			i := slices.IndexFunc(all, func(q pages.Page) bool { return q.Name == target })
			if anchor != "" && (i < 0 || !slices.Contains(headings(&all[i]), anchor)) {
				t.Errorf("%s links to %s, a heading that does not exist", p.Name, m[0])
			}
		}
	}
}

// headings returns the anchors that GitHub gives a page's headings.
func headings(p *pages.Page) (anchors []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(outsideFences(p), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, "#"+strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}

// The README stays short, and lines of prose fit a screen; table rows cannot be broken.
func TestLengths(t *testing.T) {
	for _, p := range pages.All(t) {
		lines := strings.Split(strings.TrimSuffix(p.Text, "\n"), "\n")
		if p.Name == "README.md" && len(lines) > 120 {
			t.Errorf("%s has %d lines, want 120 at most", p.Name, len(lines))
		}
		for i, line := range lines {
			if n := utf8.RuneCountInString(line); n > 120 && !strings.HasPrefix(strings.TrimSpace(line), "|") {
				t.Errorf("%s:%d has %d columns, want 120 at most", p.Name, i+1, n)
			}
		}
	}
}
