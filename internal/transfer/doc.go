// Package transfer copies whole stores, with their history, between sqlstore and others.
//
// A [backend.Source] yields the rows of a store in the order in which they were written. [Load] writes them to an
// empty database at their own revisions. The rows of a target are complete and verified before a server may open it:
// until then, the target carries the mark of an unfinished import.
package transfer
