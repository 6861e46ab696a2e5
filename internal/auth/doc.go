// Package auth is the model of users, roles and permissions, with etcd's rules. It holds no connection, no password in
// clear and no token: it answers whether a caller may do something, and what a change leads to.
//
// A [State] never changes, so that a check takes no lock. [State.Apply] returns the next one.
package auth
