package restapi

import (
	"net/url"
	"strings"
)

const (
	objectsPath = "/v1/objects/"
	treePath    = "/v1/tree/"
	openapiPath = "/openapi.json"
)

// kind is what a path names.
type kind int

const (
	aKey        kind = iota // one object
	aCollection             // all keys with a prefix
	aTree                   // one level of them
	theOpenAPI              // the description of the API
)

// target is what a request refers to.
type target struct {
	kind kind
	key  []byte // or the prefix
}

// parsePath parses a path as described in the package comment. Errors: 400, 404.
func parsePath(u *url.URL) (target, error) {
	// The escaped path is what the client wrote: "/v1%2Fobjects/" does not match.
	escaped := u.EscapedPath()
	if escaped == openapiPath {
		return target{kind: theOpenAPI}, nil
	}
	on := aKey
	raw, ok := strings.CutPrefix(escaped, objectsPath)
	if !ok {
		on = aTree
		if raw, ok = strings.CutPrefix(escaped, treePath); !ok {
			return target{}, notServed(u.Path)
		}
	}
	key, err := url.PathUnescape(raw)
	if err != nil {
		return target{}, badRequest("the path is not correctly percent-encoded: %v", err)
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "." || element == ".." {
			return target{},
				badRequest("the key has the element %q, which proxies and clients would interpret", element)
		}
	}
	if on == aKey && (key == "" || strings.HasSuffix(key, "/")) {
		on = aCollection
	}
	return target{on, []byte(key)}, nil
}
