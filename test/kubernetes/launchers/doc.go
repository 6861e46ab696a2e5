// Package launchers is the root of the tests in which programs that start etcd start sqlstore instead.
//
//	containers/  the image with the command lines of etcd's image, and testcontainers' module for etcd
//	envtest/     controller-runtime's envtest
//	kubeadm/     the static Pod that kubeadm writes for etcd
//	kwok/        clusters that kwokctl creates, next to the same clusters on etcd
//
// SQLSTORE_TEST_IMAGE names the image to test; by default the tests build it.
package launchers
