package restapi

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// paths are the paths of the operations. OpenAPI has no parameter that spans slashes; a key's may be percent-encoded.
var paths = []struct {
	on         kind
	path, name string
	parameter  string // in the path
}{
	{aKey, objectsPath + "{key}", "", "key"},
	{aCollection, objectsPath + "{prefix}/", "", "prefix"},
	{aCollection, objectsPath, "All", ""},
	{aTree, treePath + "{prefix}", "", "prefix"},
	{aTree, treePath, "All", ""},
	{theLeases, leasesPath, "", ""},
	{aLease, leasesPath + "/{id}", "", "id"},
	{theAlarms, alarmsPath, "", ""},
	{theUsers, usersPath, "", ""},
	{aUser, usersPath + "/{name}", "", "name"},
	{theRoles, rolesPath, "", ""},
	{aRole, rolesPath + "/{name}", "", "name"},
	{theAuth, authPath, "", ""},
	{theOpenAPI, openapiPath, "", ""},
}

const keyInPath = "The key as it is, including slashes, or percent-encoded."

// inPaths describe the parameters of paths.
var inPaths = map[string]string{
	"key": keyInPath, "prefix": keyInPath, "id": "The id of the lease in hexadecimal, as etcdctl prints it.",
	"name": "The name, percent-encoded where it needs to be.",
}

// errorsOfAll are the codes that any operation may return.
var errorsOfAll = []int{400, 405, 408, 429, 500, 503, 504}

// errorsOfCallers are the codes of operations, except for the description, if authentication is enabled.
var errorsOfCallers = []int{http.StatusUnauthorized, http.StatusForbidden}

// security describes how callers authenticate, if they must: one of these is enough.
var (
	security        = []schemaOf{{"basic": []string{}}, {"bearer": []string{}}, {}}
	securitySchemes = schemaOf{
		"basic": schemaOf{
			"type": "http", "scheme": "basic", "description": "The name and password of a user of etcd's Auth API.",
		},
		"bearer": schemaOf{
			"type": "http", "scheme": "bearer", "description": "A token of the Auth API's Authenticate.",
		},
	}
)

// describe makes the OpenAPI description from the table of operations.
func describe(o *Options) []byte {
	all := schemaOf{}
	for _, p := range paths {
		item := schemaOf{}
		if p.parameter != "" {
			item["parameters"] = []schemaOf{{
				"name": p.parameter, "in": "path", "required": true, "schema": stringSchema,
				"description": inPaths[p.parameter],
			}}
		}
		for i := range operations {
			if op := &operations[i]; op.on == p.on {
				op.describe(item, p.name)
			}
		}
		all[p.path] = item
	}
	doc := schemaOf{
		"openapi": "3.0.3",
		"info": schemaOf{
			"title": "sqlstore's list/watch API", "version": o.version(),
			// OpenAPI 3.0 has no security scheme for client certificates
			"description": "Objects by key, at resource versions, as Kubernetes lists and watches them; and, for " +
				"reading, leases, alarms, users and roles. While " +
				"etcd's authentication is enabled, a request needs a user: by name and password (Basic), by a token " +
				"(Bearer), or, where the server requires client certificates, by the common name of the client's. " +
				"Requests without one get 401, and those that the user's roles do not allow get 403.",
		},
		"paths":      all,
		"components": schemaOf{"schemas": schemas(), "securitySchemes": securitySchemes},
	}
	out, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it contains only what JSON supports
	}
	return append(out, '\n')
}

func (o *Options) version() string {
	if o.Version == "" {
		return "unknown"
	}
	return o.Version
}

var methodNames = map[string]string{http.MethodGet: "get", http.MethodPut: "put", http.MethodDelete: "delete"}

// describe adds an operation to a path. A watch uses the same method as its read, which is described first.
func (op *operation) describe(item schemaOf, suffix string) {
	method := methodNames[op.method]
	into, beside := item[method].(schemaOf)
	if !beside {
		into = schemaOf{"operationId": op.id + suffix, "summary": op.summary, "responses": schemaOf{}}
		item[method] = into
	} else {
		into["description"] = "With ?watch=true: " + op.summary + " The answer is a stream of WatchEvents, one per " +
			"line."
	}
	params, _ := into["parameters"].([]schemaOf)
	for i := range op.params {
		params = op.params[i].describe(params, beside)
	}
	if len(params) > 0 {
		into["parameters"] = params
	}
	if op.body != nil {
		content := schemaOf{mediaJSON: schemaOf{"schema": op.body}}
		if op.raw {
			content[mediaBytes] = schemaOf{"schema": schemaOf{"type": "string", "format": "binary"}}
		}
		into["requestBody"] = schemaOf{"content": content, "required": op.raw}
	}
	responses := into["responses"].(schemaOf)
	for _, code := range errorsOfAll {
		responses[strconv.Itoa(code)] = response(code, statusSchema)
	}
	if op.on != theOpenAPI {
		into["security"] = security
		for _, code := range errorsOfCallers {
			responses[strconv.Itoa(code)] = response(code, statusSchema)
		}
		responses["401"].(schemaOf)["headers"] = schemaOf{"WWW-Authenticate": schemaOf{
			"description": "The ways to authenticate.", "schema": stringSchema,
		}}
	}
	for code, schema := range op.answers {
		key := strconv.Itoa(code)
		if before, ok := responses[key].(schemaOf); ok && code == http.StatusOK {
			schema = schemaOf{"anyOf": []schemaOf{
				before["content"].(schemaOf)[mediaJSON].(schemaOf)["schema"].(schemaOf), schema,
			}}
		}
		responses[key] = response(code, schema)
	}
}

// response describes an answer; its schema is nil if it has no body.
func response(code int, schema schemaOf) schemaOf {
	if schema == nil {
		return schemaOf{"description": http.StatusText(code)}
	}
	return schemaOf{"description": http.StatusText(code), "content": schemaOf{mediaJSON: schemaOf{"schema": schema}}}
}

// ofWatch introduces a parameter, or a meaning of it, that only a watch has.
const ofWatch = "With watch=true: "

// describe adds a parameter to those of an operation, or its meaning for the watch with the same method.
func (p *parameter) describe(to []schemaOf, beside bool) []schemaOf {
	doc := p.doc
	for _, other := range to {
		if other["name"] == p.name {
			if before := other["description"].(string); before != doc {
				other["description"] = before + " " + ofWatch + doc
			}
			return to
		}
	}
	if beside && p.name != watchFlag.name {
		doc = ofWatch + doc
	}
	in := "query"
	if p.header {
		in = "header"
	}
	return append(to, schemaOf{"name": p.name, "in": in, "description": doc, "schema": p.schema})
}
