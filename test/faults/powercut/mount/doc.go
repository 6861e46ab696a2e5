// Package mount mounts the file system of package disk through FUSE, on Linux. It needs /dev/fuse, and root or
// fusermount3.
//
// The kernel caches what programs read, and passes every write on before it returns: the cache neither hides nor delays
// one. Only a change of memory that a program has mapped reaches the disk later, when the kernel writes it back, at the
// latest with the next sync of the file. SQLite maps its -shm file, and does not expect to find it after a crash. The
// mount is the only way to the disk while it lasts, so nothing in the cache becomes outdated. After a cut the cache
// still answers some reads; writes and syncs fail. Unmounting empties the cache.
//
// The process that mounts must not open files of the mount itself: the Go runtime could wait for an answer that it
// would have to give.
package mount
