package console

import (
	"net/http"
	"net/url"
	"strconv"
)

const leasesPath = "/v1/leases"

// lease is a lease of the list/watch API.
type lease struct {
	ID        string     `json:"id"`
	Granted   int64      `json:"grantedTTL"`   // in seconds
	Remaining int64      `json:"remainingTTL"` // in seconds
	Keys      int64      `json:"keys"`
	Attached  []attached `json:"attachedKeys"` // the first ones
}

// attached is a key of a lease.
type attached struct {
	Key       string `json:"key"`
	KeyBase64 []byte `json:"keyBase64"` // if the key is not UTF-8
}

// Name returns the key.
func (a attached) Name() string { return bytesOr(a.KeyBase64, a.Key) }

// chunkOf is a chunk of a list without versions.
type chunkOf[T any] struct {
	Metadata struct {
		Continue  string `json:"continue"`
		Remaining int64  `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// mostListed is how many leases, users or roles a page shows.
const mostListed = 200

// list asks for a chunk of a list.
func (c *Console) list(r *http.Request, path, token string, into any) error {
	ask := url.Values{"limit": {strconv.Itoa(mostListed)}}
	if token != "" {
		ask.Set("continue", token)
	}
	return c.api.get(r, path, ask, into)
}

// leased is the data of the page of leases.
type leased struct {
	chunkOf[lease]

	Paged bool // not the first page
}

// Total returns how many leases there are, if this is the first page.
func (l *leased) Total() int64 { return int64(len(l.Items)) + l.Metadata.Remaining }

// leases shows the leases.
func (c *Console) leases(r *http.Request) (view, error) {
	token := r.URL.Query().Get("continue")
	l := leased{Paged: token != ""}
	if err := c.list(r, leasesPath, token, &l); err != nil {
		return view{}, err
	}
	return view{page: "leases", title: "Leases", data: &l}, nil
}

// lease shows a lease and its keys.
func (c *Console) lease(r *http.Request) (view, error) {
	id := r.URL.Query().Get("id")
	if id == "" {
		return view{}, &failure{Code: http.StatusBadRequest, Message: "The address names no lease."}
	}
	var l lease
	if err := c.api.get(r, leasesPath+"/"+url.PathEscape(id), nil, &l); err != nil {
		return view{}, err
	}
	return view{page: "lease", title: "Lease " + l.ID, data: &l}, nil
}

// leaseOf returns the lease of a version, without its keys; nil if the version has none, or if the lease has ended.
func (c *Console) leaseOf(r *http.Request, v *version) (*lease, error) {
	if v.Lease == "" {
		return nil, nil
	}
	l := &lease{}
	err := c.api.get(r, leasesPath+"/"+url.PathEscape(v.Lease), url.Values{"keys": {"false"}}, l)
	if is(err, http.StatusNotFound) {
		return nil, nil
	}
	return l, err
}

// duration returns a number of seconds for people. static/leases.js has the same.
func duration(seconds int64) string {
	units := []struct {
		name    string
		seconds int64
	}{{" d", 86400}, {" h", 3600}, {" min", 60}, {" s", 1}}
	for i, u := range units {
		if seconds < u.seconds {
			continue
		}
		text := strconv.FormatInt(seconds/u.seconds, 10) + u.name
		if i+1 < len(units) {
			if rest := seconds % u.seconds / units[i+1].seconds; rest > 0 {
				text += " " + strconv.FormatInt(rest, 10) + units[i+1].name
			}
		}
		return text
	}
	return "0 s"
}
