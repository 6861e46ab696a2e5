package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
)

const (
	// mostVersions is how many versions a page shows, the newest ones, and mostBytes how many bytes of values it
	// compares for that.
	mostVersions = 100
	mostBytes    = 8 << 20
	// firstSpan is how many revisions back a page looks for versions at first, and spanGrowth how many times as many
	// it looks at next. The API has histories with the oldest version first.
	firstSpan  = 16
	spanGrowth = 8
	// mostChunks bounds the chunks read of one span. Each has at most 500 versions and 4 MiB.
	mostChunks = 16
)

// version is a version of a key.
type version struct {
	*changes.Version

	Revision int64
	Time     time.Time // zero if nobody knows
	Lease    string    // "" for none
	Change   changes.Change
}

// Deleted reports whether the version is the key's deletion.
func (v *version) Deleted() bool { return v.Row.Deleted }

// Bytes returns the size of the value.
func (v *version) Bytes() int64 { return int64(len(v.Row.Value)) }

// chunk is an answer with a part of a history.
type chunk struct {
	Metadata struct {
		ResourceVersion        int64 `json:"resourceVersion,string"`
		CurrentResourceVersion int64 `json:"currentResourceVersion,string"`
	} `json:"metadata"`
	Items []item `json:"items"`
}

// item is an object, or a version of one.
type item struct {
	Metadata    metadata  `json:"metadata"`
	Value       []byte    `json:"valueBase64"`
	CommittedAt time.Time `json:"committedAt"` // only of a version
	Deleted     bool      `json:"deleted"`
}

// rows returns the versions of a part of the history, not decoded.
func (p *chunk) rows(key string) (all []*version) {
	for i := range p.Items {
		item := &p.Items[i]
		row := &backend.Row{
			Key: []byte(key), ModRevision: item.Metadata.ResourceVersion, CreateRevision: item.Metadata.CreateRevision,
			Value: item.Value, Deleted: item.Deleted,
		}
		row.Lease, _ = strconv.ParseInt(item.Metadata.Lease, 16, 64) // 0 for none
		// The API does not count versions. All that matters is which one is the first.
		if row.Version = 2; row.ModRevision == row.CreateRevision {
			row.Version = 1
		}
		all = append(all, &version{
			Version: &changes.Version{Row: row}, Revision: row.ModRevision, Time: item.CommittedAt,
			Lease: item.Metadata.Lease,
		})
	}
	return all
}

// ask asks for a part of the history of a key: the versions after a revision, or all that are left if it is 0.
func (c *Console) ask(r *http.Request, key string, after int64, limit int) (part chunk, err error) {
	ask := url.Values{"history": {"true"}}
	if after > 0 {
		ask.Set("resourceVersion", strconv.FormatInt(after, 10))
	}
	if limit > 0 {
		ask.Set("limit", strconv.Itoa(limit))
	}
	err = c.api.get(r, objectsPath+url.PathEscape(key), ask, &part)
	if is(err, http.StatusNotFound) {
		return part, nil // it never existed
	}
	return part, err
}

// is reports whether the API has answered with a status.
func is(err error, code int) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.Code == code
}

// find returns the version that a key has at a point, nil if it does not exist there, and a revision from which the
// page follows the key. It needs no right to read anything but the key.
func (c *Console) find(r *http.Request, key string, at point) (found *version, now int64, err error) {
	oldest, err := c.ask(r, key, 0, 1)
	now = oldest.Metadata.CurrentResourceVersion
	if err != nil || len(oldest.Items) == 0 {
		return nil, now, err
	}
	ask := url.Values{}
	at.list(ask)
	var o item
	switch err = c.api.get(r, objectsPath+url.PathEscape(key), ask, &o); {
	case is(err, http.StatusNotFound):
		return nil, now, nil
	case is(err, http.StatusGone) && at.revision > 0:
		// nobody can read the store at that revision, but the history may begin with it
		if v := oldest.rows(key)[0]; v.Revision == at.revision && !v.Deleted() {
			return decoded(v), now, nil
		}
		return nil, now, err
	case err != nil:
		return nil, now, err
	}
	revision := o.Metadata.ResourceVersion
	part, err := c.ask(r, key, revision-1, 1)
	if revision == 1 || is(err, http.StatusGone) { // older than all changes that are left
		part, err = c.ask(r, key, 0, 1)
	}
	if err != nil {
		return nil, now, err
	}
	for _, v := range part.rows(key) {
		if v.Revision == revision {
			return decoded(v), max(now, revision), nil
		}
	}
	return nil, now, &failure{Code: http.StatusGone, Message: "The version has just been compacted: try again."}
}

// decoded returns the version with its object.
func decoded(v *version) *version {
	v.Version = changes.Decode(v.Row)
	return v
}

// newest returns the newest versions of a key up to the current revision, the newest first, and whether there are older
// ones that are left.
func (c *Console) newest(r *http.Request, key string, now int64) (all []*version, older bool, err error) {
	for span := int64(firstSpan); ; span *= spanGrowth {
		found, whole, err := c.span(r, key, max(now-span, 0))
		switch {
		case err != nil:
			return nil, false, err
		case !whole && all != nil: // too much to read: those of the shorter span will do
			return c.describe(r, all, true)
		}
		all, older = found, now > span
		if !older || !whole || len(all) > mostVersions || bytesOf(all) > mostBytes {
			return c.describe(r, all, older)
		}
	}
}

// span returns the versions after a revision, the oldest first, not decoded. whole is false if there are too many to
// read.
func (c *Console) span(r *http.Request, key string, after int64) (all []*version, whole bool, err error) {
	for range mostChunks {
		part, err := c.ask(r, key, after, 0)
		if after > 0 && is(err, http.StatusGone) {
			part, err = c.ask(r, key, 0, 0)
		}
		if err != nil {
			return nil, false, err
		}
		all = append(all, part.rows(key)...)
		for len(all) > mostVersions+1 || len(all) > 2 && bytesOf(all) > 2*mostBytes {
			all = all[1:]
		}
		if part.Metadata.ResourceVersion >= part.Metadata.CurrentResourceVersion {
			return all, true, nil
		}
		after = part.Metadata.ResourceVersion
	}
	return all, false, nil
}

func bytesOf(all []*version) (n int64) {
	for _, v := range all {
		n += v.Bytes()
	}
	return n
}

// describe says what each version changed, and returns the newest first. The oldest one serves only to compare with, if
// there are older ones.
func (c *Console) describe(r *http.Request, all []*version, older bool) ([]*version, bool, error) {
	for len(all) > 2 && bytesOf(all) > mostBytes {
		all, older = all[1:], true
	}
	for i, v := range all {
		if err := r.Context().Err(); err != nil {
			return nil, false, err
		}
		v.Version = changes.Decode(v.Row)
		var before *changes.Version
		if i > 0 && !all[i-1].Deleted() {
			before = all[i-1].Version
		}
		v.Change = hideChange(changes.Compare(v.Version, before), v.Version, before)
	}
	slices.Reverse(all)
	if len(all) > mostVersions {
		all, older = all[:mostVersions], true
	}
	return all, older, nil
}
