// Package rig builds a cluster out of containers, one for each host, and breaks it: a Postgres primary with a
// synchronous standby, sqlstore replicas over them, and two networks. Databases and replicas communicate over the
// private one, from which hosts are cut off. The other one publishes ports to the test, so that its clients stay
// connected to a replica that has lost its database.
//
// sqlstore runs as its users run it in containers: one static binary in an empty image, not as root. Everything is
// removed when its test ends, or by package guard when the test process dies.
package rig
