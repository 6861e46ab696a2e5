// Descriptors of a database file beside SQLite's own. When a process closes any descriptor of a file, the kernel drops
// all POSIX locks that the process has on it, SQLite's included. So these are shared, and closed all at once.
#ifndef PAGESUM_DESCRIPTORS_H
#define PAGESUM_DESCRIPTORS_H

typedef struct descriptor descriptor;

// descriptors_open returns a descriptor of the file at the path, opened with open's flags, or a negative errno.
int descriptors_open(descriptor **all, const char *path, int flags);
void descriptors_close(descriptor *all);

// descriptor_lock locks the file that fd has open, or unlocks it, and returns 1. It returns a negative errno if another
// descriptor, of this process or another one, has it locked, and 0 if the system or the file system has no such locks.
int descriptor_lock(int fd, int lock);

#endif
