// Package kubeadm tests that the static Pod that kubeadm writes for etcd runs sqlstore, if only the image is another.
//
// kubeadm itself, built from its module, makes the certificates and the Pod's manifest. The test does with the manifest
// what a kubelet does: it runs the command with the volumes and in the network of a node, and calls the probes there.
package kubeadm
