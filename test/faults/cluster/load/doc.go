// Package load puts a cluster of sqlstore replicas under the load of many clients, which record their requests and
// answers in a [history.Journal].
//
// Some clients use only one replica, which shows when that one serves; the others use all of them. They are etcd's own
// (clientv3), which do not retry a request that may have taken effect. Watches run on every replica as long as the
// load, and their client resumes them.
package load
