package topreport

import (
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

// Names of anybody are text.
func TestHostile(t *testing.T) {
	hostile := `"><script>alert(1)</script><img src=http://example.com/x>` + "\u202e\x00\xff"
	r := Report{
		Title: "Top of " + Name(hostile), Facts: []string{hostile},
		Tables: []Table{
			Top("By prefix", "Prefix", []tally.Group{{Name: hostile, Keys: 1234}, {Name: strings.Repeat("x", 1<<20)}}),
			Growth("Growth", "Kind", []tally.Grown{{Name: hostile, Bytes: -2048, Keys: 3}}), Top("None", "Kind", nil),
		},
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, never := range []string{"<script", "<img", "<link", "url(", "ZgotmplZ", strings.Repeat("x", 300)} {
		if strings.Contains(text, never) {
			t.Errorf("the file has %q", never)
		}
	}
	for _, want := range []string{
		`\&#34;&gt;&lt;script&gt;`, `\u202e\x00\xff`, "<td>1,234", "<td>−2.0 KiB", "<td>&#43;3", "xx…",
		`<th scope="row">none`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %q: %s", want, text)
		}
	}
	style := strings.SplitN(source, "<style>", 2)[1]
	style, _, _ = strings.Cut(style, "</style>")
	if !strings.Contains(text, "<style>"+style+"</style>") {
		t.Error("the style is not the one that the policy allows")
	}
}
