package console

import (
	"encoding/json"
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
	// mostVersions is how many versions a page shows, the newest ones.
	mostVersions = 100
	// mostChunks bounds how many chunks of a history a page reads. Each has at most 500 versions and 4 MiB.
	mostChunks = 20
)

// version is a version of a key.
type version struct {
	Revision int64
	Time     time.Time // zero if nobody knows
	Change   changes.Change

	row backend.Row
}

// Deleted reports whether the version is the key's deletion.
func (v *version) Deleted() bool { return v.row.Deleted }

// Bytes returns the size of the value.
func (v *version) Bytes() int64 { return int64(len(v.row.Value)) }

// versions are those of a key that are left, the newest first.
type versions struct {
	All     []*version
	Omitted int64 // older ones that the page does not show
	Partial bool  // there are newer ones: the history is too long for a page
}

// chunk is an answer with a part of a history.
type chunk struct {
	Metadata struct {
		ResourceVersion        int64 `json:"resourceVersion,string"`
		CurrentResourceVersion int64 `json:"currentResourceVersion,string"`
	} `json:"metadata"`
	Items []struct {
		Metadata    metadata        `json:"metadata"`
		Value       json.RawMessage `json:"value"`
		ValueBase64 []byte          `json:"valueBase64"`
		CommittedAt time.Time       `json:"committedAt"`
		Deleted     bool            `json:"deleted"`
	} `json:"items"`
}

// history returns the versions of a key. Errors: those of the API; a key that never existed has none.
func (c *Console) history(r *http.Request, key string) (versions, error) {
	var all []*version // the oldest first
	var v versions
	ask := url.Values{"history": {"true"}}
	for n := 1; !v.Partial; n++ {
		var part chunk
		err := c.api.get(r, objectsPath+url.PathEscape(key), ask, &part)
		if f, ok := errors.AsType[*failure](err); ok && f.Code == http.StatusNotFound {
			return v, nil
		}
		if err != nil {
			return v, err
		}
		all = append(all, part.versions(key)...)
		// One more than the page shows, to compare with.
		v.Omitted += int64(max(0, len(all)-mostVersions-1))
		all = all[max(0, len(all)-mostVersions-1):]
		if part.Metadata.ResourceVersion >= part.Metadata.CurrentResourceVersion {
			break
		}
		v.Partial = n == mostChunks
		ask.Set("resourceVersion", strconv.FormatInt(part.Metadata.ResourceVersion, 10))
	}
	for i, x := range all {
		var prev *backend.Row
		if i > 0 && !all[i-1].Deleted() {
			prev = &all[i-1].row
		}
		x.Change = hideChange(changes.Describe(&x.row, prev), &x.row, prev)
	}
	slices.Reverse(all)
	if len(all) > mostVersions {
		all = all[:mostVersions]
		v.Omitted++
	}
	v.All = all
	return v, nil
}

// versions returns those of a part of the history.
func (p *chunk) versions(key string) (all []*version) {
	for i := range p.Items {
		item := &p.Items[i]
		x := &version{Revision: item.Metadata.ResourceVersion, Time: item.CommittedAt, row: backend.Row{
			Key: []byte(key), ModRevision: item.Metadata.ResourceVersion, CreateRevision: item.Metadata.CreateRevision,
			Value: item.ValueBase64, Deleted: item.Deleted,
		}}
		if item.Value != nil {
			x.row.Value = item.Value
		}
		// The API does not count versions. All that matters is which one is the first.
		if x.row.Version = 2; x.row.ModRevision == x.row.CreateRevision {
			x.row.Version = 1
		}
		all = append(all, x)
	}
	return all
}

// at returns the version that existed at a point, nil if there was none or it is not known.
func (v *versions) at(p point) *version {
	for _, x := range v.All {
		switch {
		case p.revision > 0 && x.Revision > p.revision:
		case !p.time.IsZero() && (x.Time.IsZero() || x.Time.After(p.time)):
		default:
			return x
		}
	}
	return nil
}
