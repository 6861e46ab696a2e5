package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// point is when a page shows the store: at a revision, at a time, or the current state if it is zero.
type point struct {
	Text     string // as the browser sent it
	revision int64
	time     time.Time
}

// layouts are the forms of a time. One without a zone is in UTC.
var layouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// parsePoint parses what the browser sent. Errors: [*failure].
func parsePoint(text string) (point, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return point{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return point{Text: text, revision: n}, nil
	}
	for _, form := range layouts {
		if t, err := time.Parse(form, text); err == nil {
			return point{Text: text, time: t}, nil
		}
	}
	return point{}, &failure{Code: http.StatusBadRequest, Message: fmt.Sprintf(
		"%q is no revision and no time. Write a number, or a time in UTC such as 2026-11-23 14:03.", text)}
}

// String returns the point for people.
func (p point) String() string {
	if p.revision > 0 {
		return "revision " + p.Text
	}
	return when(p.time) + " UTC"
}

// pointOf returns the point that a request names.
func pointOf(r *http.Request) (point, error) { return parsePoint(r.URL.Query().Get("at")) }

// list adds the point to the parameters of a list.
func (p point) list(query url.Values) {
	switch {
	case p.revision > 0:
		query.Set("resourceVersion", strconv.FormatInt(p.revision, 10))
		query.Set("resourceVersionMatch", "Exact")
	case !p.time.IsZero():
		query.Set("at", p.time.UTC().Format(time.RFC3339Nano))
	}
}
