package console

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

const (
	// mostHex is how many bytes of a value the page shows as hex, and mostText how many of a text.
	mostHex  = 64 << 10
	mostText = 512 << 10
)

// versionRow is a line of the versions.
type versionRow struct {
	*version

	At, Before string // the revisions of this version and of the one before, "" if there is none
	Current    bool   // the page shows it
	Newest     bool
}

// shown is the data of the page of a key.
type shown struct {
	Key    string
	Trail  []entry
	Rows   []versionRow
	Older  bool     // there are versions that the page does not show
	Shown  *version // nil if there was none at the point
	Newest bool
	Lease  *lease // of the newest version, nil if it has none or that has ended
	Kind   string
	Format kubeobject.Format
	Text   string
	Hidden bool // values of a Secret
	Raw    bool
	Cut    int64  // bytes that are not shown
	Writes bool   // the key can be changed
	Events string // the address of the stream of new versions, "" if the page does not show the newest
	Now    int64  // the revision of the store that the page shows
}

// object shows a key: its value at a point, and its versions.
func (c *Console) object(r *http.Request) (view, error) {
	at, err := pointOf(r)
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	s := shown{Key: q.Get("key"), Raw: q.Has("raw"), Writes: c.writes}
	if err := checkKey(s.Key); err != nil {
		return view{}, err
	}
	s.Trail = trail(s.Key)
	newest, now, err := c.find(r, s.Key, point{})
	if err != nil {
		return view{}, err
	}
	if s.Shown = newest; at.Text != "" {
		if s.Shown, _, err = c.find(r, s.Key, at); err != nil {
			return view{}, err
		}
	}
	all, older, err := c.newest(r, s.Key, now)
	if err != nil {
		return view{}, err
	}
	if len(all) == 0 && s.Shown == nil {
		return view{}, &failure{Code: http.StatusNotFound, Message: "There is no key " + show.Key(s.Key) +
			", and no version of it in the history that is left."}
	}
	if s.Shown == nil && at.Text == "" && len(all) > 0 {
		s.Shown = all[0] // its deletion
	}
	if s.Now = now; at.Text == "" && !q.Has("reveal") { // showing a Secret's values is asked for each time
		s.Events = events(s.Key)
	}
	s.list(all, older)
	s.Newest = newest != nil && s.Shown != nil && newest.Revision == s.Shown.Revision
	if s.Shown != nil && !s.Shown.Deleted() {
		c.value(r, &s)
	}
	if s.Newest {
		if s.Lease, err = c.leaseOf(r, s.Shown); err != nil {
			c.log.Debug("console: a lease cannot be read", "key", s.Key, "error", err) // the page has its id
		}
	}
	return view{page: "object", title: s.Key, data: &s}, nil
}

// list fills in the versions.
func (s *shown) list(all []*version, older bool) {
	s.Older = older
	for i, v := range all {
		row := versionRow{
			version: v, At: strconv.FormatInt(v.Revision, 10),
			Current: s.Shown != nil && v.Revision == s.Shown.Revision,
		}
		row.Newest = i == 0
		if i+1 < len(all) {
			row.Before = strconv.FormatInt(all[i+1].Revision, 10)
		}
		s.Rows = append(s.Rows, row)
	}
}

// checkKey refuses keys that the API has no objects for. Errors: [*failure].
func checkKey(key string) error {
	switch {
	case key == "":
		return &failure{Code: http.StatusBadRequest, Message: "The address names no key."}
	case strings.HasSuffix(key, "/"), strings.Contains("/"+key+"/", "/./"), strings.Contains("/"+key+"/", "/../"):
		return &failure{Code: http.StatusBadRequest, Message: "The list/watch API has no objects whose keys end in a " +
			"slash, or have . or .. between slashes: use etcdctl or 'sqlstore get' for " + show.Key(key) + "."}
	}
	return nil
}

// value fills in what is shown of the value. Showing those of a Secret is logged.
func (c *Console) value(r *http.Request, s *shown) {
	o := s.Shown.Object
	s.Format = o.Format
	if o.Kind != "" {
		s.Kind = o.APIVersion + " " + o.Kind
	}
	reveal := r.URL.Query().Has("reveal") && asked(r)
	s.Text, s.Hidden = text(s.Shown.Version, reveal)
	if reveal && isSecret(s.Shown.Version) {
		c.log.Warn("console: the values of a Secret are shown", "key", s.Key, "revision", s.Shown.Revision,
			"user", userOf(r), "address", r.RemoteAddr)
	}
	most := mostText
	if s.Raw && !s.Hidden {
		s.Text, most = string(s.Shown.Row.Value), mostHex
	}
	if s.Cut = int64(max(0, len(s.Text)-most)); s.Cut > 0 {
		s.Text = s.Text[:most]
	}
	if s.Raw && !s.Hidden {
		s.Text = hex.Dump([]byte(s.Text))
	}
}

// asked reports whether the user wanted what the request is for, and no page of another site.
func asked(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "" || site == "none" || site == "same-origin")
}
