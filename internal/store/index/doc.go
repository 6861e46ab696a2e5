// Package index keeps the newest live row of every key in memory, in key order, with as many of the values as there is
// room for. It asks the database nothing: the store fills it, applies committed batches to it and fetches the values
// that it lacks.
//
// Invariants:
//
//  1. An index is at one [Position]. A batch is applied whole: whoever looks sees all of its rows or none, with the
//     revision to match. What several looks must agree on comes from one method.
//  2. A key that is found is right, complete or not. A key that is not found does not exist if the index is complete,
//     else only the database knows.
//  3. Items are immutable. A row whose value is evicted or fetched is another [Item], so whoever holds the old one
//     keeps what it had. A value of another epoch never gets in: its row may have the same id.
//  4. A [Tree] handed out never changes, but for those that [Index.Fork] and [NewTree] make, which belong to their
//     callers. The index lets go of a [Snapshot] when too much may be alive because of it.
//  5. The value cache is bounded by bytes. Rows are not: about 250 bytes a key.
package index
