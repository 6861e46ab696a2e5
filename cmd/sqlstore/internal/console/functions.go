package console

import (
	"fmt"
	"html/template"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// functions are for the templates.
var functions = template.FuncMap{
	"bytes": func(n int64) string { return humanize.IBytes(uint64(max(n, 0))) },
	"comma": humanize.Comma,
	"signedBytes": func(n int64) string {
		return sign(n) + humanize.IBytes(uint64(max(n, -n)))
	},
	"signed": func(n int64) string { return sign(n) + humanize.Comma(max(n, -n)) },
	"keys": func(n int64) string {
		if n == 1 {
			return "1 key"
		}
		return humanize.Comma(n) + " keys"
	},
	"runbook": runbook,
	"digits":  digits,
	"when":    when,
	"now":     time.Now,
	"name":    name,
	"short":   short,
	"visible": visible,
	"link":    link,
	"text":    func(n int64) string { return strconv.FormatInt(n, 10) },
	"place":   func(trail []entry, at string) map[string]any { return map[string]any{"Trail": trail, "At": at} },
	"percent": func(part, of int64) int64 {
		if of <= 0 {
			return 0
		}
		return min(100*part/of, 100)
	},
	"duration": duration,
	"column":   column,
}

// sign returns that of a difference.
func sign(n int64) string {
	switch {
	case n > 0:
		return "+"
	case n < 0:
		return "−"
	}
	return ""
}

// when returns a time for people, in UTC.
func when(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// link returns a path with parameters, given as names and values; those without a value are left out.
func link(path string, parameters ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			q.Set(parameters[i], parameters[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// visible returns a value with what nobody sees, or what turns the direction of writing, in Go's notation.
func visible(text string) string {
	return escaped(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// name returns a key, or a part of one, likewise. It is one line.
func name(key string) string { return escaped(key, func(rune) bool { return false }) }

// short is name for a list, of keys that may have a megabyte.
func short(key string) string {
	if len(key) <= mostName {
		return name(key)
	}
	return name(key[:mostName]) + "…"
}

// mostName is how many bytes of a key's name a list shows.
const mostName = 256

// escaped returns a text in which what is not printable, and not allowed, is in Go's notation, with its backslashes.
func escaped(text string, allowed func(rune) bool) string {
	readable := func(r rune) bool { return unicode.IsPrint(r) || allowed(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !readable(r) }) < 0 {
		return text
	}
	var out strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case readable(r) && r != '\\':
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		rest = rest[size:]
	}
	return out.String()
}

// linesOf returns the lines of a text without their ends.
func linesOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for l := range strings.Lines(text) {
			if !yield(strings.TrimSuffix(l, "\n")) {
				return
			}
		}
	}
}
