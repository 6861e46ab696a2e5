// Package putback puts keys of a running store back as they were at a point, as new writes.
//
// A [Comparison] finds the keys that differ, a [Plan] keeps what is to be written, and [Plan.Write] writes it: each key
// in a transaction of its own, which does nothing if the key has changed since the comparison. Clients of Kubernetes
// resume a watch at the revision of the last object that they saw, so objects that share a revision could be lost to
// them.
package putback
