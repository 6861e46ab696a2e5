// Package restapi serves a Kubernetes-style list/watch API over HTTP/JSON: get, list in chunks, watch, create, update
// and delete. It is for edge programs, tests and people with curl, who have no kube-apiserver.
//
//	GET    /v1/objects/<key>             one object; with ?watch=true its changes, with ?history=true its versions,
//	                                     with ?at=TIME as it was then
//	GET    /v1/objects/<prefix>/         the objects below a prefix, in chunks; with ?watch=true their changes
//	PUT    /v1/objects/<key>             create, or, with a resourceVersion, update
//	DELETE /v1/objects/<key>
//	GET    /v1/tree/<prefix>             one level of the tree of keys, in chunks: keys, and longer prefixes with the
//	                                     number of their keys
//	GET    /v1/leases                    the leases, in chunks
//	GET    /v1/leases/<id>               one lease and its keys; the id is in hexadecimal
//	GET    /v1/alarms                    the alarms that are raised
//	GET    /v1/users, /v1/roles          the users and the roles, in chunks
//	GET    /v1/users/<name>              one user; /v1/roles/<name> is one role
//	GET    /v1/auth                      whether callers need a user
//	GET    /openapi.json                 the description of the API
//
// Its guarantees:
//
//  1. The key is what follows "/v1/objects/", percent-decoded and otherwise unchanged: no path is cleaned, nothing is
//     redirected.
//  2. A value's bytes never change. A JSON value is embedded as it is (in a watch its line breaks become spaces,
//     because an event is one line), any other is base64.
//  3. An answer that looks complete is complete: a list that fails after its first bytes breaks the connection.
//  4. A watch delivers every change after its start once, in order. If it cannot continue, it ends with an ERROR event.
//  5. Requests are parsed with the same table (operations.go) that generates the OpenAPI description.
//  6. An object's resource version is its ETag: If-Match and If-None-Match are honoured where there is one, and refused
//     elsewhere.
//  7. Leases, alarms, users and roles are shown to those who may see them over etcd's API, by the same checks. The
//     hashes of passwords are never shown.
//  8. The memory of a request is bounded: its body (and all large bodies together), a chunk of its list, the backlog of
//     a slow watch (package store), and how long a client may take to read.
//
// Package paging decides which revision a read uses, handles continue tokens, and what happens to compacted revisions.
package restapi
