// Package paging reads Kubernetes-style: lists in chunks that are one consistent snapshot, at resource versions matched as
// KEP-2523 says, with continue tokens that every replica understands.
//
// What it keeps:
//
//  1. All rows of a list are of one revision of one history, on all of its pages, whichever replicas answer them. What cannot be
//     answered so any more is an error ([ErrExpired] where the revision is compacted), never a thinner list.
//  2. How a list finds its revision is decided by one table (match.go), how a watch begins by another (watchstart.go).
//  3. A continue token opens for the list that it was made for and no other, says nothing to who has no key, and keeps its meaning over
//     restarts, upgrades and replicas (token.go). The keys are in the database, all processes share them (keyring.go).
//  4. A page costs what its rows cost: it begins at its first key, wherever in the list that is, and rows behind it are counted
//     once for a list (the token carries the count on).
//  5. Memory is bounded by a chunk, whatever the limit; a wait for a revision to come asks the database once and then hears of it
//     from the store (wait.go).
package paging
