// Package deploy tests what the directory deploy offers to clusters: the Helm chart, the static Pod, and the files for
// k3s, k0s and kubeadm.
//
// Helm itself lints and renders the chart with each file in testdata/values. A real kube-apiserver validates every
// object strictly, in a namespace that enforces the Pod Security Standard "restricted". The real binary accepts the
// arguments and variables of every Pod; some run, and their probes are called as a kubelet would.
package deploy
