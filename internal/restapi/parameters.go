package restapi

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/paging"
)

// options are the parameters of a request.
type options struct {
	watch     bool
	limit     int64
	token     string
	version   string // "" if not given
	match     string
	initial   *bool
	bookmarks bool
	previous  bool
	base64    bool
	history   bool
	keys      *bool         // nil if not given
	at        time.Time     // zero if not given
	timeout   time.Duration // 0 means none

	ifMatch, ifNoneMatch *tags // nil if not given
}

// notHere are Kubernetes' parameters that would shorten a list or suppress a write. Ignoring them would mislead the
// client.
var notHere = []string{"labelSelector", "fieldSelector", "dryRun"}

// parse parses the operation's parameters. It ignores unknown ones, as Kubernetes does. Errors: 400.
func (op *operation) parse(r *http.Request, o *options) error {
	for i := range op.params {
		p := &op.params[i]
		values := r.Header.Values(p.name)
		if !p.header || len(values) == 0 {
			continue
		}
		if err := p.set(o, strings.Join(values, ",")); err != nil {
			return badRequest("the header %s=%q %v", p.name, strings.Join(values, ","), err)
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query cannot be parsed: %v", err)
	}
	for _, name := range notHere {
		if query.Get(name) != "" {
			return badRequest("the parameter %s is not supported: omit it", name)
		}
	}
	for i := range op.params {
		p := &op.params[i]
		values, given := query[p.name]
		if !given || p.header {
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

// parameter is a parameter in the query, or a header.
type parameter struct {
	name, doc string
	header    bool
	schema    schemaOf
	set       func(o *options, value string) error
}

var (
	listVersion = version("The version to read, as specified by resourceVersionMatch. Unset is the most recent, 0 " +
		"any.")
	fromVersion = version("Where the watch begins: unset is the most recent state, 0 any state, any other value the " +
		"changes after it.")

	precondition = version("The version that the object must have; " +
		"for a PUT, 0 or unset means that it must not exist.")

	versionMatch = text("resourceVersionMatch", "Exact or NotOlderThan: the meaning of resourceVersion.",
		func(o *options, s string) { o.match = s })

	limit = number("limit", "Maximum number of items; 0 means all.", func(o *options, n int64) { o.limit = n })
	// chunkLimit is that of lists whose chunks are bounded in any case.
	chunkLimit = number("limit", "Maximum number of items, at most 500; 0 means 500.",
		func(o *options, n int64) { o.limit = n })

	continueToken = text("continue", "The token from the end of the previous chunk.", func(o *options, s string) {
		o.token = s
	})

	watchFlag = boolean("watch", "Stream changes as they happen.", func(o *options, b bool) { o.watch = b })

	bookmarks = boolean("allowWatchBookmarks",
		"Send a BOOKMARK from time to time with the version up to which everything "+
			"was sent.", func(o *options, b bool) { o.bookmarks = b })

	initialEvents = boolean("sendInitialEvents", "Whether a watch begins with the existing objects, as ADDED, and, if "+
		"bookmarks are allowed, a BOOKMARK at their end. Needs resourceVersionMatch=NotOlderThan.",
		func(o *options, b bool) { o.initial = &b })

	previous = boolean("previous", "Whether each MODIFIED of a watch has the version that it supersedes, as previous, "+
		"unless that has been compacted.", func(o *options, b bool) { o.previous = b })

	inBase64 = boolean("base64", "Whether every value is shown as valueBase64, also JSON: all bytes as they are.",
		func(o *options, b bool) { o.base64 = b })

	timeoutSeconds = number("timeoutSeconds", "When to end the watch; 0 means never.",
		func(o *options, n int64) {
			o.timeout = time.Duration(min(n, math.MaxInt32)) * time.Second
		})

	watchParams = []parameter{
		watchFlag, fromVersion, versionMatch, initialEvents, bookmarks, previous, inBase64,
		timeoutSeconds, limit, continueToken,
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

// boolean is true if given without a value, as in Kubernetes.
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

// form is how the answer shows values.
func (o *options) form(oneLine bool) form { return form{oneLine: oneLine, base64: o.base64} }

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
