package restapi

import (
	"net/url"
	"strings"
)

const (
	objectsPath = "/v1/objects/"
	treePath    = "/v1/tree/"
	leasesPath  = "/v1/leases"
	alarmsPath  = "/v1/alarms"
	usersPath   = "/v1/users"
	rolesPath   = "/v1/roles"
	authPath    = "/v1/auth"
	openapiPath = "/openapi.json"
)

// kind is what a path names.
type kind int

const (
	aKey        kind = iota // one object
	aCollection             // all keys with a prefix
	aTree                   // one level of them
	theOpenAPI              // the description of the API
	theLeases
	aLease
	theAlarms
	theUsers
	aUser
	theRoles
	aRole
	theAuth // whether callers need rights
)

// fixedPaths name one thing each.
var fixedPaths = map[string]kind{
	openapiPath: theOpenAPI, leasesPath: theLeases, alarmsPath: theAlarms, usersPath: theUsers, rolesPath: theRoles,
	authPath: theAuth,
}

// openPaths are followed by a key, a prefix or a name.
var openPaths = []struct {
	path string
	on   kind
}{
	{objectsPath, aKey},
	{treePath, aTree},
	{leasesPath + "/", aLease},
	{usersPath + "/", aUser},
	{rolesPath + "/", aRole},
}

// target is what a request refers to.
type target struct {
	kind kind
	key  []byte // or the prefix; nil if it is neither
	name string // of a user or role, or the id of a lease
}

// parsePath parses a path as described in the package comment. Errors: 400, 404.
func parsePath(u *url.URL) (target, error) {
	// The escaped path is what the client wrote: "/v1%2Fobjects/" does not match.
	escaped := u.EscapedPath()
	if on, ok := fixedPaths[escaped]; ok {
		return target{kind: on}, nil
	}
	for _, p := range openPaths {
		if raw, ok := strings.CutPrefix(escaped, p.path); ok {
			return parseRest(u, p.on, raw)
		}
	}
	return target{}, notServed(u.Path)
}

// parseRest parses what follows a path.
func parseRest(u *url.URL, on kind, raw string) (target, error) {
	rest, err := url.PathUnescape(raw)
	if err != nil {
		return target{}, badRequest("the path is not correctly percent-encoded: %v", err)
	}
	for element := range strings.SplitSeq(rest, "/") {
		if element == "." || element == ".." {
			return target{},
				badRequest("the path has the element %q, which proxies and clients would interpret", element)
		}
	}
	switch on {
	case aKey, aTree:
		if on == aKey && (rest == "" || strings.HasSuffix(rest, "/")) {
			on = aCollection
		}
		return target{kind: on, key: []byte(rest)}, nil
	}
	if rest == "" {
		return target{}, notServed(u.Path)
	}
	return target{kind: on, name: rest}, nil
}
