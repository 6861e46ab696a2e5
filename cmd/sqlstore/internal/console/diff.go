package console

import (
	"net/http"
	"slices"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
)

const (
	// mostCompared bounds the texts that the page compares, in bytes, and mostLines the lines that it shows.
	mostCompared = 2 << 20
	mostLines    = 5000
)

// differing is the data of the page that compares two versions of a key.
type differing struct {
	Key      string
	Trail    []entry
	From, To int64
	Lines    []line
	Hidden   bool
	Cut      bool // there are more lines
}

// line is a line of a comparison. Mark is '+', '-', ' ', or '@' between parts.
type line struct {
	Mark byte
	Text string
}

// Class returns what kind of line it is, for the style.
func (l line) Class() string {
	return map[byte]string{'+': "added", '-': "removed", '@': "part"}[l.Mark]
}

// diff compares two versions of a key.
func (c *Console) diff(r *http.Request) (view, error) {
	q := r.URL.Query()
	d := differing{Key: q.Get("key")}
	if err := checkKey(d.Key); err != nil {
		return view{}, err
	}
	d.Trail = trail(d.Key)
	texts := [2]string{}
	for i, name := range []string{"from", "to"} {
		at, err := parsePoint(q.Get(name))
		if err != nil {
			return view{}, err
		}
		v, _, err := c.find(r, d.Key, at)
		if err != nil {
			return view{}, err
		}
		to := []*int64{&d.From, &d.To}[i]
		*to = at.revision
		if v != nil {
			var hidden bool
			*to = v.Revision
			texts[i], hidden = text(v.Version, false)
			d.Hidden = d.Hidden || hidden
		}
	}
	if len(texts[0])+len(texts[1]) > mostCompared {
		return view{}, &failure{Code: http.StatusRequestEntityTooLarge, Message: "The versions are too large to " +
			"compare here: 'sqlstore diff' prints the difference."}
	}
	d.Lines, d.Cut = compared(texts[0], texts[1])
	return view{page: "diff", title: "Changes of " + d.Key, data: &d}, nil
}

// compared returns the lines of a unified comparison, without its heading, and whether there are more of them.
func compared(from, to string) (all []line, cut bool) {
	lines := slices.Collect(linesOf(changes.Unified("from", "to", from, to)))
	for _, text := range lines[min(2, len(lines)):] {
		if text != "" {
			all = append(all, line{Mark: text[0], Text: text[1:]})
		}
	}
	return all[:min(len(all), mostLines)], len(all) > mostLines
}
