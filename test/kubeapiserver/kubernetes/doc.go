// Package kubernetes stands for a module that holds no code: its go.mod names kube-apiserver,
// kube-controller-manager and kubectl as tools, with the dependencies of their own release, so that
// `go build k8s.io/kubernetes/cmd/kube-apiserver` in this directory builds the stock program.
//
// It is a module of its own because sqlstore wants a newer etcd client than Kubernetes does, and one
// module would build kube-apiserver with the newer one.
package kubernetes
