#define _GNU_SOURCE // for F_OFD_SETLK
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct descriptor descriptor;
struct descriptor {
	int fd, flags, users;
	int locked; // by descriptor_lock
	dev_t device;
	ino_t inode;
	descriptor *next;
};

static descriptor *descriptors;

// find returns the descriptor that has the file at the path open with these flags, NULL if there is none.
static descriptor *find(const char *path, int flags) {
	struct stat at;
	if (stat(path, &at) != 0) {
		return 0;
	}
	descriptor *d = descriptors;
	while (d && !(d->device == at.st_dev && d->inode == at.st_ino && (d->flags & O_ACCMODE) == (flags & O_ACCMODE))) {
		d = d->next;
	}
	return d;
}

static descriptor *of(int fd) {
	descriptor *d = descriptors;
	while (d->fd != fd) {
		d = d->next;
	}
	return d;
}

int descriptor_open(const char *path, int flags) {
	descriptor *d = find(path, flags);
	if (d) {
		d->users++;
		return d->fd;
	}
	d = calloc(1, sizeof *d);
	if (!d) {
		return -ENOMEM;
	}
	struct stat opened;
	d->fd = open(path, flags | O_CLOEXEC, 0600);
	if (d->fd < 0 || fstat(d->fd, &opened) != 0) { // what file an open one has is unknown, so it stays open
		int err = errno;
		free(d);
		return -err;
	}
	d->flags = flags;
	d->users = 1;
	d->device = opened.st_dev;
	d->inode = opened.st_ino;
	d->next = descriptors;
	descriptors = d;
	return d->fd;
}

void descriptor_release(int fd) { of(fd)->users--; }

void descriptors_close(int (*in_use)(dev_t, ino_t)) {
	for (descriptor **at = &descriptors; *at;) {
		descriptor *d = *at;
		if (d->users > 0 || in_use(d->device, d->inode)) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		close(d->fd);
		free(d);
	}
}

#define LOCK_BYTE (0x40000000 + 512) // the first one behind those that SQLite locks

// The lock belongs to the descriptor, not to the process: neither can SQLite's calls release it, nor does it conflict
// with SQLite's locks, which are on other bytes.
static int lock_byte(int fd, int lock) {
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

int descriptor_lock(int fd, int lock) {
	descriptor *d = of(fd);
	for (descriptor *other = descriptors; lock && other; other = other->next) {
		if (other->locked && other->device == d->device && other->inode == d->inode) {
			return -EAGAIN;
		}
	}
	int err = lock_byte(fd, lock);
	if (err >= 0) {
		d->locked = lock;
	}
	return err;
}
