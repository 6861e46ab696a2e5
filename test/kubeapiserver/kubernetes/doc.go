// Package kubernetes represents a module without code: its go.mod names kube-apiserver, kube-controller-manager and
// kubectl as tools, with the dependencies of their own release, so that `go build k8s.io/kubernetes/cmd/kube-apiserver`
// in this directory builds the stock program.
//
// It is a separate module because sqlstore needs a newer etcd client than Kubernetes, and a shared module would build
// kube-apiserver with the newer one.
package kubernetes
