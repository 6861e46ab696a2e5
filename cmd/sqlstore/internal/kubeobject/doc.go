// Package kubeobject decodes what kube-apiserver stores: protobuf, JSON and CBOR, to what kubectl prints.
//
// [Decode] takes any value and never fails. What it does not know it describes: an encrypted value by its provider and
// the name of its key, text as it is, other bytes as hex.
//
// The package links Kubernetes' API types. It belongs to the command, and programs that embed the server do not link
// it.
package kubeobject
