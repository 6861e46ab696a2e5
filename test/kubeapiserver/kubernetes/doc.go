// Package kubernetes represents a module nearly without code: its go.mod names kube-apiserver, kube-controller-manager
// and kubectl as tools, with the dependencies of their own release, so that `go build
// k8s.io/kubernetes/cmd/kube-apiserver` in this directory builds the stock program. Its only command, storagedata,
// prints the objects of Kubernetes' own test of its storage.
//
// It is a separate module because sqlstore needs a newer etcd client than Kubernetes, and a shared module would build
// kube-apiserver with the newer one.
package kubernetes
