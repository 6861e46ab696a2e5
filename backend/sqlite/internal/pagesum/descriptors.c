#define _GNU_SOURCE // for F_OFD_SETLK
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// descriptor is an open file. There are several for a path if the file at it was replaced.
struct descriptor {
	int fd, flags;
	dev_t device;
	ino_t inode;
	descriptor *next;
};

// find returns a descriptor that has the file at the path open with these flags, -1 if there is none.
static int find(const descriptor *d, const char *path, int flags) {
	struct stat at;
	if (stat(path, &at) != 0) {
		return -1;
	}
	for (; d; d = d->next) {
		if (d->device == at.st_dev && d->inode == at.st_ino && (d->flags & O_ACCMODE) == (flags & O_ACCMODE)) {
			return d->fd;
		}
	}
	return -1;
}

int descriptors_open(descriptor **all, const char *path, int flags) {
	int fd = find(*all, path, flags);
	if (fd >= 0) {
		return fd;
	}
	descriptor *d = calloc(1, sizeof *d);
	if (!d) {
		return -ENOMEM;
	}
	d->fd = open(path, flags | O_CLOEXEC, 0600);
	if (d->fd < 0) {
		int err = errno;
		free(d);
		return -err;
	}
	d->flags = flags;
	d->next = *all;
	*all = d;
	struct stat opened;
	if (fstat(d->fd, &opened) == 0) { // otherwise nobody finds it again
		d->device = opened.st_dev;
		d->inode = opened.st_ino;
	}
	return d->fd;
}

void descriptors_close(descriptor *all) {
	while (all) {
		descriptor *next = all->next;
		close(all->fd);
		free(all);
		all = next;
	}
}

#define LOCK_BYTE (0x40000000 + 512) // the first one behind those that SQLite locks

// The lock belongs to the descriptor, not to the process: neither can SQLite's calls release it, nor does it conflict
// with SQLite's locks, which are on other bytes.
int descriptor_lock(int fd, int lock) {
#ifdef F_OFD_SETLK
	struct flock l = {
		.l_type = lock ? F_WRLCK : F_UNLCK,
		.l_whence = SEEK_SET,
		.l_start = LOCK_BYTE,
		.l_len = 1,
	};
	if (fcntl(fd, F_OFD_SETLK, &l) == 0) {
		return 1;
	}
	return errno == EAGAIN || errno == EACCES ? -EAGAIN : 0;
#else
	(void)fd, (void)lock;
	return 0;
#endif
}
