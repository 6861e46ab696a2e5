package restapi

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/paging"
)

// operation is one thing that can be asked. Requests are parsed, and the description is made, from the table of them.
type operation struct {
	id      string // in the description
	verb    string // in the metrics
	method  string
	on      kind
	watch   bool // ?watch=true leads here
	summary string
	params  []parameter
	body    schemaOf         // of a request, nil for none
	raw     bool             // the body may be the value itself
	answers map[int]schemaOf // by code; those of errors that every operation may answer are left out
	serve   func(*call) error
}

const (
	verbWatch = "watch"
	verbNone  = "none" // what is asked is not known
	verbGet   = "get"
	verbList  = "list"
)

// operations is the API. It is filled by init, as what it leads to looks into it.
var operations []operation

func init() {
	operations = []operation{{
		id: "get", verb: verbGet, method: http.MethodGet, on: aKey,
		summary: "Read one object.",
		params:  []parameter{readVersion},
		answers: map[int]schemaOf{200: itemSchema, 404: statusSchema, 504: statusSchema},
		serve:   (*call).get,
	}, {
		id: "watch", verb: verbWatch, method: http.MethodGet, on: aKey, watch: true,
		summary: "Watch one object.",
		params:  watchParams,
		answers: map[int]schemaOf{200: eventSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).watch,
	}, {
		id: "list", verb: verbList, method: http.MethodGet, on: aCollection,
		summary: "List the objects whose keys begin with a prefix, in chunks that are one consistent snapshot.",
		params:  []parameter{limit, continueToken, listVersion, versionMatch, initialEvents},
		answers: map[int]schemaOf{200: listSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).list,
	}, {
		id: "watchList", verb: verbWatch, method: http.MethodGet, on: aCollection, watch: true,
		summary: "Watch the objects whose keys begin with a prefix.",
		params:  watchParams,
		answers: map[int]schemaOf{200: eventSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).watch,
	}, {
		id: "put", verb: "put", method: http.MethodPut, on: aKey,
		summary: "Create an object, or, with a resourceVersion, update the one that has it.",
		params:  []parameter{precondition},
		body:    putSchema, raw: true,
		answers: map[int]schemaOf{
			200: itemSchema, 201: itemSchema, 404: statusSchema, 409: statusSchema,
			413: statusSchema, 415: statusSchema,
		},
		serve: (*call).put,
	}, {
		id: "delete", verb: "delete", method: http.MethodDelete, on: aKey,
		summary: "Delete an object.",
		params:  []parameter{precondition},
		body:    deleteSchema,
		answers: map[int]schemaOf{
			200: statusSchema, 404: statusSchema, 409: statusSchema, 413: statusSchema,
			415: statusSchema,
		},
		serve: (*call).delete,
	}, {
		id: "openapi", verb: "openapi", method: http.MethodGet, on: theOpenAPI,
		summary: "This description.",
		answers: map[int]schemaOf{200: anySchema},
		serve:   (*call).describe,
	}}
}

// find returns the operation that a request asks for. Errors: 400, 405.
func find(on kind, r *http.Request) (*operation, error) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var found *operation
	watching := false
	for i := range operations {
		op := &operations[i]
		if op.on != on || op.method != method {
			continue
		}
		if op.watch {
			var o options
			if err := (&operation{params: []parameter{watchFlag}}).parse(r, &o); err != nil {
				return nil, err
			}
			if !o.watch {
				continue
			}
			watching = true
		}
		if found == nil || watching {
			found = op
		}
	}
	if found == nil {
		return nil, methodNotAllowed(r.Method, allowed(on))
	}
	return found, nil
}

// allowed returns the methods of what a path names.
func allowed(on kind) string {
	methods := map[string]bool{}
	for i := range operations {
		if op := &operations[i]; op.on == on {
			methods[op.method] = true
			if op.method == http.MethodGet {
				methods[http.MethodHead] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
}

// options are the parameters that a request gave.
type options struct {
	watch     bool
	limit     int64
	token     string
	version   string // "" when not given
	match     string
	initial   *bool
	bookmarks bool
	timeout   time.Duration // 0 means none
}

// notHere are Kubernetes' parameters that would make a list shorter, or have nothing written. An answer that overlooked
// them would mislead whoever gave them.
var notHere = []string{"labelSelector", "fieldSelector", "dryRun"}

// parse reads the operation's parameters. Others are ignored, as Kubernetes does. Errors: 400.
func (op *operation) parse(r *http.Request, o *options) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query cannot be read: %v", err)
	}
	for _, name := range notHere {
		if query.Get(name) != "" {
			return badRequest("the parameter %s is not served here: leave it out", name)
		}
	}
	for i := range op.params {
		p := &op.params[i]
		values, given := query[p.name]
		if !given {
			continue
		}
		if len(values) > 1 {
			return badRequest("the parameter %s is given %d times", p.name, len(values))
		}
		if err := p.set(o, values[0]); err != nil {
			return badRequest("the parameter %s=%q %v", p.name, values[0], err)
		}
	}
	return nil
}

// parameter is one of a query's.
type parameter struct {
	name, doc string
	schema    schemaOf
	set       func(o *options, value string) error
}

var (
	readVersion = version("What the answer must show: unset is the most recent state, 0 any that this server has, " +
		"another not an older one than it.")
	listVersion = version("The version that is asked for; resourceVersionMatch says how. Unset is the most recent, 0 " +
		"any.")
	fromVersion = version("Where the watch begins: unset is with the most recent state, 0 with any, another with the " +
		"changes after it.")

	precondition = version("The version that the object must have; " +
		"for a PUT, 0 or unset means that there must be none.")

	versionMatch = text("resourceVersionMatch", "Exact or NotOlderThan: how resourceVersion is meant.",
		func(o *options, s string) { o.match = s })

	limit = number("limit", "At most so many items; 0 means all.", func(o *options, n int64) { o.limit = n })

	continueToken = text("continue", "The token that the chunk before ended with.", func(o *options, s string) {
		o.token = s
	})

	watchFlag = boolean("watch", "Stream changes as they happen.", func(o *options, b bool) { o.watch = b })

	bookmarks = boolean("allowWatchBookmarks", "Tell from time to time, as BOOKMARK, up to which version everything "+
		"was sent.", func(o *options, b bool) { o.bookmarks = b })

	initialEvents = boolean("sendInitialEvents", "Whether a watch begins with what is there, as ADDED, and, if "+
		"bookmarks are allowed, a BOOKMARK at its end. Needs resourceVersionMatch=NotOlderThan.",
		func(o *options, b bool) { o.initial = &b })

	timeoutSeconds = number("timeoutSeconds", "When to end the watch; 0 means that it lasts.",
		func(o *options, n int64) {
			o.timeout = time.Duration(min(n, math.MaxInt32)) * time.Second
		})

	watchParams = []parameter{
		watchFlag, fromVersion, versionMatch, initialEvents, bookmarks, timeoutSeconds, limit,
		continueToken,
	}
)

func text(name, doc string, set func(*options, string)) parameter {
	return parameter{name: name, doc: doc, schema: stringSchema, set: func(o *options, s string) error {
		set(o, s)
		return nil
	}}
}

func version(doc string) parameter {
	return parameter{name: "resourceVersion", doc: doc, schema: versionSchema, set: func(o *options, s string) error {
		o.version = s
		if _, err := paging.ParseVersion(s); err != nil {
			return errVersion
		}
		return nil
	}}
}

func number(name, doc string, set func(*options, int64)) parameter {
	return parameter{name: name, doc: doc, schema: numberSchema, set: func(o *options, s string) error {
		if s == "" {
			return nil
		}
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return errNumber
		}
		set(o, int64(n))
		return nil
	}}
}

// boolean is true when given without a value, as in Kubernetes.
func boolean(name, doc string, set func(*options, bool)) parameter {
	return parameter{name: name, doc: doc, schema: booleanSchema, set: func(o *options, s string) error {
		b := true
		if s != "" {
			var err error
			if b, err = strconv.ParseBool(s); err != nil {
				return errBoolean
			}
		}
		set(o, b)
		return nil
	}}
}

func (o *options) listOptions() paging.ListOptions {
	return paging.ListOptions{
		ResourceVersion: o.version, ResourceVersionMatch: o.match, Limit: o.limit,
		Continue: o.token,
	}
}

func (o *options) watchOptions() paging.WatchOptions {
	return paging.WatchOptions{
		ResourceVersion: o.version, ResourceVersionMatch: o.match, SendInitialEvents: o.initial,
		AllowWatchBookmarks: o.bookmarks, Limit: o.limit, Continue: o.token,
	}
}
