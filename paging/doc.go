// Package paging implements Kubernetes-style reads: lists in chunks that form one consistent snapshot, resource
// versions matched as in KEP-2523, and continue tokens that every replica accepts.
//
// Its guarantees:
//
//  1. All rows of a list belong to one revision of one history, on all pages, whichever replicas serve them. If that is
//     no longer possible, the list fails ([ErrExpired] if the revision is compacted); it never omits rows.
//  2. One table decides at which revision a list reads (match.go), another where a watch begins (watchstart.go).
//  3. A continue token works only for the list that it was made for, reveals nothing without a key, and stays valid
//     across restarts, upgrades and replicas (token.go). The keys are in the database and shared by all processes
//     (keyring.go).
//  4. The cost of a page is the cost of its rows: reading begins at its first key, wherever in the list that is. The
//     rows after it are counted once per list, and the token carries the count.
//  5. Memory is bounded by a chunk, whatever the limit. Waiting for a future revision queries the database once and
//     then relies on the store's notifications (wait.go).
package paging
