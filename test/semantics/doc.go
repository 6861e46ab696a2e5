// Package semantics holds what a Kubernetes-style API answers to lists, gets and watches at resource versions, as tables of
// cases, and puts them to a server over HTTP: to sqlstore's own API and to a kube-apiserver over sqlstore.
//
// The tables follow KEP-2523 (resourceVersionMatch), the API-chunking KEP and KEP-3157 (sendInitialEvents). A case knows which rule
// of the KEP it falls under ([Outcome]), and what follows from that: the code, the Status's reason, the resource version that the
// list shows, and exactly which objects it holds.
//
//	semantics.Run(t, semantics.Server{
//		Client: http.DefaultClient,
//		Lists:  []string{"http://127.0.0.1:2380/v1/objects//registry/pods/default/"},
//		Put:    ..., Delete: ..., Compact: ...,
//	})
//
// Run writes a history of a few objects through the server's hooks, compacts a part of it, and asks every case of every replica.
// The package needs the standard library only, so that any module can use it.
package semantics
