// Package load puts a cluster of sqlstore replicas under the load of many clients, which record their requests and
// answers in a [history.Journal].
//
// Some clients use only one replica, which shows when that one serves; the others use all of them. They are etcd's own
// (clientv3), which do not repeat what may have been done. Watches run on every replica for as long as the load, and
// their client resumes them.
package load
