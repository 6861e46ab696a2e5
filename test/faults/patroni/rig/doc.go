// Package rig starts a Patroni cluster of containers, one for each host, with replicas of sqlstore over it, and breaks
// its nodes: their disks, clocks and networks. Methods of [Cluster] end the test when they fail; the functions that
// break a host return an error.
package rig
