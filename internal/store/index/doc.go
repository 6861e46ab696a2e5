// Package index keeps the newest live row of every key in memory, in key order, with as many of the values as fit in
// the value cache. It does not access the database: the store fills the index, applies committed batches to it and
// fetches the values it lacks.
//
// Invariants:
//
//  1. An index is at one [Position]. A batch is applied whole: a reader sees all of its rows or none, with the matching
//     revision. Lookups that must agree with each other are one method.
//  2. A key found in the index is correct, whether or not the index is complete. A key not found does not exist if the
//     index is complete; otherwise only the database knows.
//  3. Items are immutable. When a value is evicted or fetched, the row gets another [Item], so a holder of the old one
//     keeps what it had. A value of another epoch never gets in: a different row may have the same id there.
//  4. A [Tree] handed out never changes, except those from [Index.Fork] and [NewTree], which their callers own. The
//     index drops a [Snapshot] when it may keep too much memory alive.
//  5. The value cache is bounded by bytes. Rows are not bounded: each takes about 250 bytes.
//  6. The logs of changes have every change above their start: the undo log with the row that it superseded, the log of
//     growth if it added or removed a key. They are bounded by bytes; superseded values may also use what the value
//     cache has free. A read at an older revision is answered from them whole, or not at all.
package index
