// Package sqlite keeps sqlstore's rows in one SQLite file, inside the process.
//
// # Connections
//
// One connection writes, guarded by a semaphore that [Backend.Begin] takes and the transaction's end gives back; a few
// others read. All of them are the driver's own connections with statements that stay prepared: database/sql would cost
// a fifth of the time of a write. Another process is kept out by a lock on <file>.lock, so this process is the only
// writer and may hold the clock in memory.
//
// # The clock of a read
//
// A read's snapshot is taken between two looks at the clock in memory. It reports the revision of the first look, which
// its snapshot certainly has, and the compacted revision of the second, below which nothing had been removed from the
// snapshot unless the second look shows it. So the reported clock never claims more than the snapshot holds, without a
// statement of its own for each read. This relies on the clock in memory moving after the commit that moves the clock's
// row, and on [Backend.Purge] removing only what the clock in memory has already declared compacted.
//
// # Durability
//
// WAL with synchronous=FULL: a commit has been synced when it returns. After an I/O error from COMMIT, or from a
// checkpoint or its sync, nobody knows what the file holds; the backend then refuses to write for good, because a
// second fsync may report success for pages that the kernel has dropped. Checkpoints have a goroutine and a connection
// of their own; only when the WAL has outgrown its bound does the next batch wait for one.
//
// # A full disk
//
// A file beside the database holds disk space in reserve ([Config].ReserveBytes). A write or a checkpoint that finds
// the disk full releases it: deletes and compaction, which need space to free space, go on, while [Backend.OutOfSpace]
// has the store refuse new rows until the reserve is restored.
//
// # The note in the lock file
//
// It names the files that are in use together, and a revision that the synced database file holds. After a crash a
// start compares both with what it finds, because SQLite would write the log of one file into another that was put in
// its place, such as a backup.
//
// # What costs what
//
// Measured with this package's benchmarks, 1 KiB values, random updates of 20,000 keys, 2 cores, synced commits. CPU
// for a row with all of SQLite and the kernel in it: 23 us at batches of 8, 16 at 32, 15 at 64, 12 at 512. More than
// half of it is the kernel's, for two writes to the WAL for each page that was changed, and nearly every row changes a
// page of the key index of its own; the driver and Go have a tenth. Tried without gain: pages of 2, 8 and 16 KiB,
// SQLite's compile-time options, -O3, fdatasync, no vacuuming. The key index covers a list of keys, which costs 5 % of
// a write and saves two thirds of the time of such a list, and all reading of the table when a start learns the keys.
package sqlite
