package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/status"
)

// watching is the data of the page of changes.
type watching struct {
	Prefix string // a key, unless it is empty or ends in a slash
	Events string // the address of the stream
	After  int64  // the revision that the stream begins after
}

// watch shows what changes.
func (c *Console) watch(r *http.Request) (view, error) {
	w := watching{Prefix: r.URL.Query().Get("prefix")}
	if err := c.mayWatch(r, w.Prefix); err != nil {
		return view{}, err
	}
	var report status.Report
	if err := c.api.get(r, "/status", nil, &report); err != nil {
		return view{}, err
	}
	w.After = report.Revision
	w.Events = events(w.Prefix)
	return view{page: "watch", title: strings.TrimSpace("Watch " + w.Prefix), data: &w}, nil
}

// mayWatch refuses those who may not read what they want to watch. Errors: [*failure].
func (c *Console) mayWatch(r *http.Request, prefix string) error {
	path, ask := objectsPath, url.Values(nil)
	if listed(prefix) {
		path, ask = treePath, url.Values{"limit": {"1"}}
	}
	var first struct{}
	err := c.api.get(r, path+url.PathEscape(prefix), ask, &first)
	if is(err, http.StatusUnauthorized) || is(err, http.StatusForbidden) {
		return err
	}
	return nil // the stream tries again while the database is away
}

// events returns the address of the stream of what changes below a prefix, or of a key, to which the revision to begin
// after is added.
func events(prefix string) string { return "/watch/events?prefix=" + url.QueryEscape(prefix) }

// watchEvent is a line of a watch of the list/watch API.
type watchEvent struct {
	Type   string `json:"type"`
	Object struct {
		stored
		failure // of an ERROR
	} `json:"object"`
	Previous *stored `json:"previous"` // of MODIFIED, if asked for
}

// stored is an object of a list or a watch.
type stored struct {
	Metadata metadata `json:"metadata"`
	Value    []byte   `json:"valueBase64"` // nil if it is compacted
}

// row returns the object as a row.
func (o *stored) row() *backend.Row {
	return &backend.Row{Key: []byte(o.Metadata.key()), Value: o.Value, ModRevision: o.Metadata.ResourceVersion}
}

// changed is a change of a key, as the stream has it.
type changed struct {
	Revision int64  `json:"revision"`
	Key      string `json:"key"` // for people
	Action   string `json:"action"`
	Kind     string `json:"kind,omitempty"`
	Bytes    int    `json:"bytes"`
	Object   string `json:"object,omitempty"`  // the address of its page
	Compare  string `json:"compare,omitempty"` // the address of the comparison with the version before
}

// actions are what the types of events mean.
var actions = map[string]string{"ADDED": changes.Created, "MODIFIED": changes.Updated, "DELETED": changes.Deleted}

// watchEvents sends what has changed after a revision. The id of an event is the last revision all of whose changes
// were sent before: a transaction changes many keys, and the browser may lose the connection in between. So it may get
// a change again, with the same revision and key.
func (c *Console) watchEvents(r *http.Request, s *eventStream) error {
	q := r.URL.Query()
	after, err := strconv.ParseInt(q.Get("after"), 10, 64)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after, err = strconv.ParseInt(last, 10, 64)
	}
	if err != nil || after < 1 {
		return &failure{Code: http.StatusBadRequest, Message: "The stream begins after no revision."}
	}
	sent, complete := after, after
	line := func(text []byte) error {
		var e watchEvent
		if err := json.Unmarshal(text, &e); err != nil {
			return err
		}
		if e.Type == "ERROR" {
			return &e.Object.failure
		}
		revision := e.Object.Metadata.ResourceVersion
		if revision > sent {
			sent, complete = revision, sent
		}
		if e.Type == "BOOKMARK" {
			complete = sent
			return s.add(event{name: "progress", id: strconv.FormatInt(complete, 10)})
		}
		return s.add(event{name: "change", id: strconv.FormatInt(complete, 10), data: e.changed()})
	}
	ask := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {strconv.FormatInt(after, 10)},
	}
	return c.api.follow(r, objectsPath+url.PathEscape(q.Get("prefix")), ask, line, s.flush)
}

// changed returns the event for the page. Values stay here.
func (e *watchEvent) changed() *changed {
	m := &e.Object.Metadata
	key, value := m.key(), e.Object.Value
	out := &changed{Revision: m.ResourceVersion, Key: short(key), Action: actions[e.Type], Bytes: len(value)}
	if kind := kubeobject.KindOf(value); kind.Kind != "" {
		out.Kind = name(strings.TrimSpace(kind.APIVersion + " " + kind.Kind))
	}
	if out.Action == changes.Deleted {
		out.Bytes = 0
	}
	if checkKey(key) == nil {
		at := strconv.FormatInt(m.ResourceVersion, 10)
		out.Object = link("/object", "key", key, "at", at)
		if out.Action != changes.Created {
			out.Compare = link("/diff", "key", key, "from", strconv.FormatInt(m.ResourceVersion-1, 10), "to", at)
		}
	}
	return out
}
