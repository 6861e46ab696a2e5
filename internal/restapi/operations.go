package restapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// operation is one operation of the API. The table of operations drives the parser and the description.
type operation struct {
	id      string // in the description
	verb    string // in the metrics
	method  string
	on      kind
	watch   bool // with ?watch=true
	summary string
	params  []parameter
	body    schemaOf         // of a request, nil for none
	raw     bool             // the body may be the value itself
	answers map[int]schemaOf // by code, without errors that every operation may return
	open    bool             // to callers without a user, even if authentication is enabled
	serve   func(*call) error
}

const (
	verbWatch = "watch"
	verbNone  = "none" // the operation is unknown
	verbGet   = "get"
	verbList  = "list"
)

// operations is the API. init fills it, because its handlers refer to it.
var operations []operation

func init() {
	operations = []operation{{
		id: "get", verb: verbGet, method: http.MethodGet, on: aKey,
		summary: "Read one object, also as it was at a version or a time, or its versions.",
		params:  []parameter{listVersion, versionMatch, atTime, historyFlag, limit, inBase64, ifMatch, ifNoneMatch},
		answers: map[int]schemaOf{
			200: {"anyOf": []schemaOf{itemSchema, historySchema}}, 304: nil, 404: statusSchema, 410: statusSchema,
			412: statusSchema, 504: statusSchema,
		},
		serve: (*call).get,
	}, {
		id: "watch", verb: verbWatch, method: http.MethodGet, on: aKey, watch: true,
		summary: "Watch one object.",
		params:  watchParams,
		answers: map[int]schemaOf{200: eventSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).watch,
	}, {
		id: "list", verb: verbList, method: http.MethodGet, on: aCollection,
		summary: "List the objects whose keys begin with a prefix, in chunks that form one consistent snapshot.",
		params:  []parameter{limit, continueToken, listVersion, versionMatch, initialEvents, atTime, inBase64},
		answers: map[int]schemaOf{200: listSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).list,
	}, {
		id: "watchList", verb: verbWatch, method: http.MethodGet, on: aCollection, watch: true,
		summary: "Watch the objects whose keys begin with a prefix.",
		params:  watchParams,
		answers: map[int]schemaOf{200: eventSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).watch,
	}, {
		id: "tree", verb: verbList, method: http.MethodGet, on: aTree,
		summary: "List one level of the tree of keys: the keys that begin with a prefix and have no further slash, " +
			"and the longer prefixes up to their next slash, with the number of their keys. A slash right after the " +
			"prefix does not count. At most 500 in one chunk.",
		params:  []parameter{chunkLimit, continueToken, listVersion, versionMatch, atTime},
		answers: map[int]schemaOf{200: treeSchema, 410: statusSchema, 504: statusSchema},
		serve:   (*call).tree,
	}, {
		id: "put", verb: "put", method: http.MethodPut, on: aKey,
		summary: "Create an object, or, with a resourceVersion, update the one that has it.",
		params:  []parameter{precondition, ifMatch, ifNone},
		body:    putSchema, raw: true,
		answers: map[int]schemaOf{
			200: itemSchema, 201: itemSchema, 404: statusSchema, 409: statusSchema,
			412: statusSchema, 413: statusSchema, 415: statusSchema,
		},
		serve: (*call).put,
	}, {
		id: "delete", verb: "delete", method: http.MethodDelete, on: aKey,
		summary: "Delete an object.",
		params:  []parameter{precondition, ifMatch},
		body:    deleteSchema,
		answers: map[int]schemaOf{
			200: statusSchema, 404: statusSchema, 409: statusSchema, 412: statusSchema,
			413: statusSchema, 415: statusSchema,
		},
		serve: (*call).delete,
	}, {
		id: "leases", verb: verbList, method: http.MethodGet, on: theLeases,
		summary: "List the leases in order of their ids, at most 500 in one chunk. A chunk shows those that exist " +
			"when it is made.",
		params:  []parameter{chunkLimit, continueToken},
		answers: map[int]schemaOf{200: leasesSchema},
		serve:   (*call).leases,
	}, {
		id: "lease", verb: verbGet, method: http.MethodGet, on: aLease,
		summary: "Read a lease, with at most 500 of its keys, in byte order.",
		params:  []parameter{leaseKeys},
		answers: map[int]schemaOf{200: leaseSchema, 404: statusSchema},
		serve:   (*call).lease,
	}, {
		id: "alarms", verb: verbList, method: http.MethodGet, on: theAlarms,
		summary: "List the alarms that are raised.",
		answers: map[int]schemaOf{200: alarmsSchema},
		serve:   (*call).alarms,
	}, {
		id: "users", verb: verbList, method: http.MethodGet, on: theUsers,
		summary: "List the users in order of their names, at most 500 in one chunk.",
		params:  []parameter{chunkLimit, continueToken},
		answers: map[int]schemaOf{200: usersSchema},
		serve:   (*call).users,
	}, {
		id: "user", verb: verbGet, method: http.MethodGet, on: aUser,
		summary: "Read a user. Without administrator's rights, only one's own.",
		answers: map[int]schemaOf{200: userSchema, 404: statusSchema},
		serve:   (*call).user,
	}, {
		id: "roles", verb: verbList, method: http.MethodGet, on: theRoles,
		summary: "List the roles in order of their names, at most 500 in one chunk.",
		params:  []parameter{chunkLimit, continueToken},
		answers: map[int]schemaOf{200: rolesSchema},
		serve:   (*call).roles,
	}, {
		id: "role", verb: verbGet, method: http.MethodGet, on: aRole,
		summary: "Read a role. Without administrator's rights, only one's own.",
		answers: map[int]schemaOf{200: roleSchema, 404: statusSchema},
		serve:   (*call).role,
	}, {
		id: "auth", verb: verbGet, method: http.MethodGet, on: theAuth, open: true,
		summary: "Whether authentication is enabled. It is for everybody.",
		answers: map[int]schemaOf{200: authSchema},
		serve:   (*call).auth,
	}, {
		id: "openapi", verb: "openapi", method: http.MethodGet, on: theOpenAPI,
		summary: "This description.",
		answers: map[int]schemaOf{200: anySchema},
		serve:   (*call).describe,
	}}
}

// find returns the operation of a request. Errors: 400, 405.
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

// allowed returns the methods for a path.
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
