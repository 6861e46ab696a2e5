// Package disk is a file system in memory that forgets what was not synced when its power is cut. Package mount mounts
// it.
//
// # What a sync guarantees
//
// The model is POSIX's, which is stricter than what common file systems do:
//
//   - fsync and fdatasync of a file save its content and its size, and nothing else. On ext4 and XFS they also save the
//     directory entries of a new file and of its parents, because the journal is written in order. Here an entry is
//     lost unless its own directory was synced. [Disk].Journaled makes the disk like those.
//   - fsync of a directory saves the entries in it that were created, renamed or removed before. It saves no content.
//   - Closing a file saves nothing.
//
// # What a cut leaves
//
// Of what is not synced, a seed decides what the disk still holds:
//
//   - For each sector of 512 bytes, any version that it had since the sync, whatever the others hold. So writes are
//     lost, torn, and reach the disk out of order. A sector itself is whole, and a version includes the older writes to
//     the same sector, as a page cache does it.
//   - For each file, any size that it had since the sync. A sector that is inside the size but was never written holds
//     zeros. If a truncation is lost, then so are later writes behind its end, which a file system puts elsewhere.
//   - Creates, renames and removals in the order in which they happened, up to some point: one point for the whole
//     disk, as a journal has it, or one for each directory. A rename happens completely or not at all, and saves what
//     happened before it in both directories.
//
// After the cut every operation fails with EIO. [Disk.Survive] returns the disk as it is found afterwards.
//
// Not simulated: blocks of a new file that show another file's old content, sectors that decay or that a torn write
// makes unreadable, disks that acknowledge a flush without doing it, and owner, mode and times that are lost: they are
// saved at once. There are no symbolic links.
package disk
