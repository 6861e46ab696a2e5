// Package topreport writes what fills a store, and what grew, as one HTML file that needs no other one and no script.
//
// Names come from anybody: the file shows them as text, shortened, with what is not readable quoted. Its policy lets it
// load nothing and run nothing.
package topreport

import (
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

//go:embed report.html
var source string

var page = template.Must(template.New("report").Parse(source))

// Policy is the content security policy of a report: its own style, and nothing else.
var Policy = func() string {
	_, style, _ := strings.Cut(source, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'"
}()

// Report is the contents of a file.
type Report struct {
	Title  string
	Facts  []string // of what was counted, one a line
	Tables []Table
}

// Table is a table. The first cell of a row is its name.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Write writes the file. Errors: those of w.
func (r *Report) Write(w io.Writer) error {
	return page.Execute(w, struct {
		*Report

		Policy string
	}{r, Policy})
}

// longest is how many bytes of a name the file shows.
const longest = 256

// Name returns a name as the file shows it.
func Name(name string) string {
	if len(name) > longest {
		cut := longest
		for cut > longest-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
			cut--
		}
		return show.Key(name[:cut]) + "…"
	}
	return show.Key(name)
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func signed(n int64, text string) string {
	switch {
	case n > 0:
		return "+" + text
	case n < 0:
		return "−" + text
	}
	return text
}

// Top returns the table of groups by prefix, kind, namespace or field.
func Top(title, by string, groups []tally.Group) Table {
	t := Table{Title: title, Head: []string{by, "Keys", "Bytes", "Writes", "Deletes", "Written"}}
	for i := range groups {
		g := &groups[i]
		t.Rows = append(t.Rows, []string{
			Name(g.Name), humanize.Comma(g.Keys), size(g.Bytes), humanize.Comma(g.Writes), humanize.Comma(g.Deletes),
			size(g.Written),
		})
	}
	return t
}

// Growth returns the table of what grew by prefix, kind or namespace.
func Growth(title, by string, groups []tally.Grown) Table {
	t := Table{Title: title, Head: []string{
		by, "Bytes", "Bytes added", "Bytes removed", "Keys", "Keys added", "Keys removed",
	}}
	for i := range groups {
		g := &groups[i]
		t.Rows = append(t.Rows, []string{
			Name(g.Name), signed(g.Bytes, size(max(g.Bytes, -g.Bytes))), size(g.BytesAdded), size(g.BytesRemoved),
			signed(g.Keys, humanize.Comma(max(g.Keys, -g.Keys))), humanize.Comma(g.KeysAdded),
			humanize.Comma(g.KeysRemoved),
		})
	}
	return t
}

// Counted returns the fact of what was counted.
func Counted(revision, since int64) string {
	return fmt.Sprintf("Revision %s; writes since revision %s.", humanize.Comma(revision), humanize.Comma(since))
}
