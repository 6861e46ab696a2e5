package console

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

// mostHex is how many bytes of a value the page shows as hex.
const mostHex = 64 << 10

// versionRow is a line of the versions.
type versionRow struct {
	*version

	At, Before string // the revisions of this version and of the one before, "" if there is none
	Current    bool   // the page shows it
}

// shown is the data of the page of a key.
type shown struct {
	Key      string
	Trail    []entry
	Versions versions
	Rows     []versionRow
	Shown    *version // nil if there was none at the point
	Newest   bool     // nothing newer is known
	Kind     string
	Format   kubeobject.Format
	Text     string
	Hidden   bool // values of a Secret
	Revealed bool // they were asked for
	Raw      bool
	Cut      int64 // bytes that are not shown as hex
}

// object shows a key: its value at a point, and its versions.
func (c *Console) object(r *http.Request) (view, error) {
	at, err := pointOf(r)
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	s := shown{Key: q.Get("key"), Raw: q.Has("raw")}
	if s.Key == "" {
		return view{}, &failure{Code: http.StatusBadRequest, Message: "The address names no key."}
	}
	s.Trail = trail(s.Key)
	if s.Versions, err = c.history(r, s.Key); err != nil {
		return view{}, err
	}
	if len(s.Versions.All) == 0 {
		return view{}, &failure{Code: http.StatusNotFound, Message: "There is no key " + show.Key(s.Key) +
			", and no version of it in the history that is left."}
	}
	s.Shown = s.Versions.at(at)
	for i, v := range s.Versions.All {
		row := versionRow{version: v, At: strconv.FormatInt(v.Revision, 10), Current: v == s.Shown}
		if i+1 < len(s.Versions.All) {
			row.Before = strconv.FormatInt(s.Versions.All[i+1].Revision, 10)
		}
		s.Rows = append(s.Rows, row)
	}
	s.Newest = s.Shown == s.Versions.All[0] && !s.Versions.Partial
	if s.Shown != nil && !s.Shown.Deleted() {
		c.value(r, &s, q.Has("reveal"))
	}
	return view{page: "object", title: s.Key, data: &s}, nil
}

// value fills in what is shown of the value. Showing those of a Secret is logged.
func (c *Console) value(r *http.Request, s *shown, reveal bool) {
	row := &s.Shown.row
	o := kubeobject.Decode(row.Value, row.ModRevision)
	s.Format = o.Format
	if o.Kind != "" {
		s.Kind = o.APIVersion + " " + o.Kind
	}
	s.Text, s.Hidden = text(row, reveal)
	if s.Revealed = reveal && isSecret(o); s.Revealed {
		c.log.Warn("console: the values of a Secret are shown", "key", s.Key, "revision", row.ModRevision,
			"address", r.RemoteAddr)
	}
	if s.Raw && !s.Hidden {
		value := row.Value
		if s.Cut = int64(max(0, len(value)-mostHex)); s.Cut > 0 {
			value = value[:mostHex]
		}
		s.Text = hex.Dump(value)
	}
}

// differing is the data of the page that compares two versions of a key.
type differing struct {
	Key      string
	Trail    []entry
	From, To int64
	Lines    []line
	Hidden   bool
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
	from, err := parsePoint(q.Get("from"))
	if err != nil {
		return view{}, err
	}
	to, err := parsePoint(q.Get("to"))
	if err != nil {
		return view{}, err
	}
	d := differing{Key: q.Get("key")}
	d.Trail = trail(d.Key)
	all, err := c.history(r, d.Key)
	if err != nil {
		return view{}, err
	}
	older, newer := all.at(from), all.at(to)
	if older == nil || newer == nil || from.Text == "" {
		return view{}, &failure{Code: http.StatusNotFound, Message: "One of the versions to compare is not in the " +
			"history that is left, or not among its newest versions."}
	}
	d.From, d.To = older.Revision, newer.Revision
	texts := [2]string{}
	for i, v := range []*version{older, newer} {
		if !v.Deleted() {
			var hidden bool
			texts[i], hidden = text(&v.row, false)
			d.Hidden = d.Hidden || hidden
		}
	}
	d.Lines = compared(texts[0], texts[1])
	return view{page: "diff", title: "Changes of " + d.Key, data: &d}, nil
}

// compared returns the lines of a unified comparison, without its heading.
func compared(from, to string) (all []line) {
	heading := 2
	for text := range linesOf(changes.Unified("from", "to", from, to)) {
		if heading--; heading >= 0 || text == "" {
			continue
		}
		all = append(all, line{Mark: text[0], Text: text[1:]})
	}
	return all
}
