// Descriptors of database files beside SQLite's own. When a process closes any descriptor of a file, the kernel drops all
// POSIX locks that the process has on it, SQLite's included, whatever name the file was opened by. So the descriptors of
// a file are shared by all its names, and closed once SQLite does not have it open. The caller holds a mutex.
#ifndef PAGESUM_DESCRIPTORS_H
#define PAGESUM_DESCRIPTORS_H

#include <sys/types.h>

// descriptor_open returns a descriptor of the file at the path, opened with open's flags, or a negative errno.
// descriptor_release gives it back.
int descriptor_open(const char *path, int flags);
void descriptor_release(int fd);

// descriptors_close closes the descriptors that were given back, except those of files for which in_use returns 1.
void descriptors_close(int (*in_use)(dev_t, ino_t));

// descriptor_lock locks the file that fd has open, or unlocks it, and returns 1. It returns a negative errno if another
// process has it locked, or this one by whatever descriptor, and 0 if the system or the file system has no locks for
// other processes.
int descriptor_lock(int fd, int lock);

#endif
