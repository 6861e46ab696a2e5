// Package semantics defines how a Kubernetes-style API answers lists, gets and watches at resource versions, as tables
// of cases, and checks a server against them over HTTP: sqlstore's own API, and a kube-apiserver over sqlstore.
//
// The tables follow KEP-2523 (resourceVersionMatch), the API-chunking KEP and KEP-3157 (sendInitialEvents). A case
// names its rule of the KEP ([Outcome]). From that follow the code, the Status's reason, the resource version of the
// list, and exactly which objects it contains.
//
//	semantics.Run(t, semantics.Server{
//		Client: http.DefaultClient,
//		List:   "http://127.0.0.1:2380/v1/objects//registry/pods/default/",
//		Put:    ..., Delete: ..., Compact: ...,
//	})
//
// Run writes a history of a few objects through the server's hooks, compacts a part of it, and runs every case. The
// package needs only the standard library, so that any module can use it.
package semantics
