// Package restapi serves a Kubernetes-style list/watch API over HTTP/JSON: get, list in chunks, watch, create, update,
// delete, for edge programs, tests and people with curl, who have no kube-apiserver.
//
//	GET    /v1/objects/<key>             one object; with ?watch=true its changes
//	GET    /v1/objects/<prefix>/         the objects below a prefix, in chunks (limit, continue); with ?watch=true their changes
//	PUT    /v1/objects/<key>             create, or, with a resourceVersion, update
//	DELETE /v1/objects/<key>
//	GET    /openapi.json                 the description of all this
//
// What it keeps:
//
//  1. The key is what follows "/v1/objects/", percent-decoded and otherwise untouched: no path is cleaned, nothing is
//     redirected.
//  2. A value's bytes are never changed. One that is JSON is embedded as it is (in a watch its line breaks become
//     spaces, since an event is a line), any other is shown as base64.
//  3. An answer that looks whole is whole: a list that fails after its first bytes were sent ends its connection
//     without an end.
//  4. A watch sees every change after its start once, in order; one that cannot go on says so with an ERROR event.
//  5. Parameters are parsed by the same table (operations.go) that the OpenAPI description is made from.
//  6. What a request holds is bounded: its body (and all large bodies together), a chunk of its list, what a slow watch
//     has not taken (package store), and how long a client may take to read.
//
// Which revision a read is of, continue tokens, and what of a compacted revision is decided by package paging.
package restapi
