package yamlfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/yamlfile"
)

// A file has one document. What follows it would have no effect.
func TestOneDocument(t *testing.T) {
	for text, line := range map[string]string{
		"":                                "",
		"# nothing\n":                     "",
		"a: 1\n":                          "",
		"---\na: 1\n":                     "",
		"---\na: 1\n...\n":                "",
		"a: 1\n---\nb: 2\n":               "line 2: ",
		"---\na: 1\n...\n---\n\nb: 2\n":   "line 4: ",
		"a: 1\n--- # the rest\nb: 2\n":    "line 2: ",
		"a: |\n  ---\n  text\n":           "",
		"a: 1\n---\nb: 2\n---\nc: 3\n":    "line 2: ",
		"a: 1\n---\n- no\n- map\n- too\n": "line 2: ",
	} {
		values, err := yamlfile.Parse([]byte(text))
		refused := errors.Is(err, yamlfile.ErrDocuments)
		if refused != (line != "") || err != nil && !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%q: %v, want %q", text, err, line)
		}
		if err == nil && strings.Contains(text, "a:") != (len(values) == 1) {
			t.Errorf("%q: %v", text, values)
		}
	}
	if _, err := yamlfile.Parse([]byte("a: 1\n---\n: {")); err == nil {
		t.Error("the second document is not read at all")
	}
}
