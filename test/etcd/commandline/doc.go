// Package commandline compares sqlstore's etcd command with etcd itself: the flags and their defaults, and how a start
// ends that cannot succeed.
package commandline
