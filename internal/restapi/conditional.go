package restapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

// errTags is the problem with the value of a conditional header.
var errTags = errors.New(`is neither * nor an ETag such as "5", nor a list of them`)

// The headers of conditional requests. An object's resource version, in quotes, is its ETag.
var (
	ifMatch = tagsHeader("If-Match", "The ETag that the object must have, * for any: otherwise 412.", false,
		func(o *options, t *tags) { o.ifMatch = t })
	ifNoneMatch = tagsHeader("If-None-Match", "An ETag that the client has: 304 if it still is the object's.", true,
		func(o *options, t *tags) { o.ifNoneMatch = t })
	ifNone = tagsHeader("If-None-Match", "Only *: the object must not exist, otherwise 412.", true,
		func(o *options, t *tags) { o.ifNoneMatch = t })

	conditional = []parameter{ifMatch, ifNoneMatch}
)

func tagsHeader(name, doc string, weak bool, set func(*options, *tags)) parameter {
	return parameter{name: name, doc: doc, schema: stringSchema, header: true, set: func(o *options, s string) error {
		t, err := parseTags(s, weak)
		set(o, t)
		return err
	}}
}

// tags are the ETags in a conditional header.
type tags struct {
	any      bool // *
	versions []int64
}

// foreign stands for an ETag that no object has.
const foreign = -1

// parseTags parses a list of ETags. weak lets weak ones count: proxies that compress an answer weaken its ETag.
func parseTags(s string, weak bool) (*tags, error) {
	if strings.TrimSpace(s) == "*" {
		return &tags{any: true}, nil
	}
	t := &tags{}
	for rest := strings.TrimLeft(s, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
		quoted, isWeak := strings.CutPrefix(rest, "W/")
		from, ok := strings.CutPrefix(quoted, `"`)
		tag, after, closed := strings.Cut(from, `"`)
		if !ok || !closed {
			return nil, errTags
		}
		version, err := strconv.ParseInt(tag, 10, 64)
		if err != nil || version <= 0 || etag(version) != `"`+tag+`"` || isWeak && !weak {
			version = foreign
		}
		t.versions, rest = append(t.versions, version), after
	}
	if len(t.versions) == 0 {
		return nil, errTags
	}
	return t, nil
}

// has reports whether an object of this version meets the header.
func (t *tags) has(version int64) bool { return t.any || slices.Contains(t.versions, version) }

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// answerRead answers with an object if it meets the conditional headers.
func (c *call) answerRead(row *store.Row) error {
	version := row.ModRevision
	if t := c.opts.ifMatch; t != nil && !t.has(version) {
		return failure(http.StatusPreconditionFailed, reasonConflict,
			"the object has the ETag "+etag(version)+", which If-Match does not name").named(row.Key)
	}
	if t := c.opts.ifNoneMatch; t != nil && t.has(version) {
		c.w.Header().Set("ETag", etag(version))
		c.extend()
		c.begin(http.StatusNotModified)
		return nil
	}
	return c.answerItem(http.StatusOK, row)
}

// condition is what a write requires of the object that it replaces or deletes.
type condition struct {
	given   bool
	version int64 // that the object has; 0 means that there is none
	exists  bool  // the object has any version
}

// compare returns the condition in the store's form.
func (w condition) compare(key []byte) store.Compare {
	c := store.Compare{Key: key, Target: store.CompareMod, Result: store.CompareEqual, Number: w.version}
	if w.exists {
		c.Result, c.Number = store.CompareNotEqual, 0
	}
	return c
}

// precondition returns the condition on which query, body (inBody) and headers agree. Errors: 400.
func (c *call) precondition(inBody string) (w condition, err error) {
	if w.version, err = paging.ParseVersion(c.opts.version); err != nil {
		return w, err
	}
	w.given = c.opts.version != ""
	if inBody != "" {
		also, err := paging.ParseVersion(inBody)
		if err != nil {
			return w, err
		}
		if w.given && w.version != also {
			return w, badRequest("resourceVersion is %d in the query, but %d in the body", w.version, also)
		}
		w.version, w.given = also, true
	}
	match, none := c.opts.ifMatch, c.opts.ifNoneMatch
	switch {
	case match != nil && none != nil:
		return w, badRequest("If-Match and If-None-Match exclude each other")
	case none != nil && !none.any:
		return w, badRequest("a write takes no If-None-Match but *: use If-Match")
	case none != nil && w.version != 0, match != nil && match.any && w.given:
		return w, badRequest("resourceVersion is %d, which the * of a header contradicts: omit one", w.version)
	case none != nil:
		w.given = true
	case match != nil && match.any:
		w.given, w.exists = true, true
	case match != nil && (len(match.versions) != 1 || match.versions[0] == foreign):
		return w, badRequest("If-Match of a write takes one ETag of an object, such as %q: send that of an answer",
			etag(5))
	case match != nil && w.given && match.versions[0] != w.version:
		return w, badRequest("resourceVersion is %d, but %d in If-Match", w.version, match.versions[0])
	case match != nil:
		w.given, w.version = true, match.versions[0]
	}
	return w, nil
}

// unmet makes the refusal of a write that of its conditional header, if it has one.
func (c *call) unmet(st *status) *status {
	if c.opts.ifMatch != nil || c.opts.ifNoneMatch != nil {
		st.Code = http.StatusPreconditionFailed
	}
	return st
}

// unconditional refuses conditional headers that an operation does not have: to ignore one could overwrite what the
// client wants to keep.
func (op *operation) unconditional(r *http.Request) error {
	for _, p := range conditional {
		if len(r.Header.Values(p.name)) > 0 && !slices.ContainsFunc(op.params, func(q parameter) bool {
			return q.name == p.name
		}) {
			return badRequest("a request of this kind takes no %s: omit it", p.name)
		}
	}
	return nil
}
