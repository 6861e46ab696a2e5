// Package rig starts a Patroni cluster out of containers, one for each host, with replicas of sqlstore over it, and
// breaks its nodes: their disks, clocks and networks.
package rig
