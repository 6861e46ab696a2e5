package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// sizedUnasked is how many keys a level may have for its page to show their bytes without being asked to: they are
	// not stored anywhere, so all values are read.
	sizedUnasked = 10_000
	// sizesPage is how many keys are read at once.
	sizesPage = 500
	// mostSizes is how many streams read values at a time. Others wait.
	mostSizes = 2
)

// sized is the size of an entry of a level.
type sized struct {
	Entry int    `json:"entry"` // from 0
	Bytes string `json:"bytes"` // for people
}

// sizes sends the bytes of each entry of a page of a level once they are known, keys and values at the revision of the
// page, and then the event "done". It pauses like a count.
func (c *Console) sizes(r *http.Request, s *eventStream) error {
	select {
	case c.sizing <- struct{}{}:
		defer func() { <-c.sizing }()
	case <-r.Context().Done():
		return nil
	}
	q := r.URL.Query()
	prefix, token := q.Get("prefix"), q.Get("continue")
	revision, err := strconv.ParseInt(q.Get("revision"), 10, 64)
	if err != nil || revision < 1 || !listed(prefix) {
		return &failure{Code: http.StatusBadRequest, Message: "No page of keys has this address."}
	}
	var l level
	if err := c.api.get(r, treePath+url.PathEscape(prefix), pageOf(revision, token), &l); err != nil {
		return err
	}
	entries := l.entries(prefix)
	at, bytes := 0, int64(0)
	pace := pacer{ctx: r.Context(), began: time.Now()}
	for at < len(entries) {
		token, err = c.api.keys(r, prefix, sizesPage, revision, token, func(row *backend.Row) error {
			for at < len(entries) && !entries[at].has(string(row.Key)) {
				if err := s.add(event{name: "size", data: sized{at, humanize.IBytes(uint64(bytes))}}); err != nil {
					return err
				}
				at, bytes = at+1, 0
			}
			bytes += row.Size()
			return pace.pause()
		})
		if err != nil {
			return err
		}
		if token == "" && at < len(entries) { // the last key of all is in the last entry
			if err := s.add(event{name: "size", data: sized{at, humanize.IBytes(uint64(bytes))}}); err != nil {
				return err
			}
			break
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.send(event{name: "done"})
}

// has reports whether a key is the entry, or below it.
func (e *entry) has(key string) bool {
	return key == e.Full || e.IsPrefix && strings.HasPrefix(key, e.Full)
}

// listed reports whether the API lists the keys with a prefix.
func listed(prefix string) bool { return prefix == "" || strings.HasSuffix(prefix, "/") }
