// Package load puts a cluster of sqlstore replicas under the load of many clients, which note in a [history.Journal] what they
// send and what they are answered.
//
// Some clients are bound to one replica each, so that it shows when that one serves; the others use all of them. They are
// etcd's own (clientv3), which repeat nothing that may have been done. Watches run on every replica for as long as the load, and
// their client resumes them.
package load
