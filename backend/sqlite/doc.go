// Package sqlite stores sqlstore's rows in one SQLite file, inside the process.
//
// # Connections
//
// One connection writes, guarded by a semaphore that [Backend.Begin] acquires and the end of the transaction releases;
// a few others read. Reads that may take long leave one of these to others. One more reads only for the holder of the
// semaphore ([backend.Urgent]), which would otherwise wait for the reads of clients, one for the store's own work
// ([backend.Maintenance]), and two for hashes. They are plain driver connections with statements that stay prepared:
// database/sql would cost a fifth of the time of a write. A lock on <file>.lock keeps other processes out, so this
// process is the only writer and can keep the clock in memory. The file itself is locked, too, where the system can do
// that without regard to SQLite's locks: this lock remains when the lock file is removed.
//
// # The clock of a read
//
// A read loads the clock in memory twice, before and after it takes its snapshot. It reports the revision of the first
// load, which the snapshot certainly contains, and the compacted revision of the second: whatever compaction had
// removed from the snapshot, the second load shows it. So the reported clock never claims more than the snapshot holds,
// and a read needs no extra statement for it. This relies on the clock in memory moving after the commit that moves the
// clock's row, and on [Backend.Purge] removing only what the clock in memory has already declared compacted.
//
// # Durability
//
// The database uses WAL mode with synchronous=FULL: a commit has been synced when it returns. After an I/O error from
// COMMIT, or from a checkpoint or its sync, the content of the file is unknown. The backend then permanently refuses to
// write, because a second fsync may report success for pages that the kernel has dropped. After a failed sync, package
// pagesum seals the file: SQLite neither changes it nor removes the WAL, from which the next start goes on. Checkpoints
// run in a separate goroutine on a separate connection; the next batch waits for one only when the WAL has outgrown its
// limit.
//
// # A full disk
//
// A file next to the database holds disk space in reserve ([Config].ReserveBytes). A write or a checkpoint that finds
// the disk full releases it: deletes and compaction, which need space to free space, continue, while
// [Backend.OutOfSpace] makes the store refuse new rows until the reserve is restored.
//
// # The log of a crash
//
// SQLite would apply any log to any file, also to a backup that was put in the file's place. But each transaction
// writes a random id into the row of the clock, and the id of the transaction before. So startup can tell whether the
// file is in the state before the first transaction of the log, or in that after one of them, and refuses it otherwise.
// If they do not show it, because only another program has written to the log, the file must be sound after the
// recovery.
//
// # The note in the lock file
//
// The note has the cluster's id and a revision that the store has reached: a file of the same store at a lower revision
// is an older copy ([Backend.Restored]). Every second, a backend whose lock file is no longer at its path locks the one
// that is there, or a new one, and copies the note to it.
//
// # Checksums of pages
//
// Each page of the file has a checksum, which the internal package pagesum maintains and verifies. Other programs do
// not maintain them. So the note also has the size and the time of change of a file without a log, and a log that
// belongs to the file shows that no other program has copied it. Startup verifies the pages of any other file. If some
// do not match, it verifies all rows and indexes, and gives the pages new checksums.
//
// Before each checkpoint, and every second, the backend compares the file with what its own last checkpoint has left:
// its size, its time of change, and, if these differ, the first page and that of the clock. If another program has
// written there, the backend stops using the file, because SQLite would mix the log with it, and the pages in memory.
// The log is left beside the file if it belongs to it, and moved aside otherwise.
//
// SQLite takes the first damaged frame of a log for its end, which is right for the unfinished commit of a crash. If a
// commit after that frame is known to have been synced, startup refuses the file.
//
// # What costs what
//
// Measured with this package's benchmarks: 1 KiB values, random updates of 20,000 keys, 2 cores, synced commits. A row
// costs this much CPU, including all of SQLite and the kernel: 36 us in batches of 8, 23 us at 32, 21 us at 64, 20 us
// at 512. Nearly every row changes a separate page of the key index, and SQLite writes twice to the WAL for each
// changed page. Package pagesum joins these writes; without that, a row costs 62, 37, 30 and 28 us. The driver and Go
// account for a tenth. Tried without gain: pages of 2, 8 and 16 KiB, SQLite's compile-time options, -O3, fdatasync, no
// vacuuming. The key index covers a list of keys. That costs 5 % of a write, saves two thirds of the time of such a
// list, and saves reading the table when the keys are loaded at startup.
package sqlite
