#include "database.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Frames are kept in chunks, which never move, so that readers need no lock: SQLite's own locks order a write of a
// frame before its reads.
#define CHUNK 4096
#define CHUNKS 16384 // a log of 256 GiB; frames beyond it are verified against the file

struct database {
	char *path;
	int length, handles;
	database *next;
	int known; // device and inode are those of the file
	dev_t device;
	ino_t inode;
	int summed, sealed;
	uint32_t page;
	int big;
	uint8_t start[8];
	frame *chunks[CHUNKS];
};

static database *databases;

static sqlite3_mutex *lock(void) {
	sqlite3_mutex *m = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
	sqlite3_mutex_enter(m);
	return m;
}

static database *find(const char *path, int length) {
	database *d = databases;
	while (d && (d->length != length || memcmp(d->path, path, length) != 0)) {
		d = d->next;
	}
	return d;
}

database *database_acquire(const char *path, int length) {
	sqlite3_mutex *m = lock();
	database *d = find(path, length);
	if (!d && (d = calloc(1, sizeof *d))) {
		d->path = malloc(length + 1);
		if (d->path) {
			memcpy(d->path, path, length);
			d->path[length] = 0;
			d->length = length;
			d->next = databases;
			databases = d;
		} else {
			free(d);
			d = 0;
		}
	}
	if (d) {
		d->handles++;
	}
	sqlite3_mutex_leave(m);
	return d;
}

// in_use reports whether SQLite may have that file open, by any path.
static int in_use(dev_t device, ino_t inode) {
	database *d = databases;
	while (d && !(d->known && d->device == device && d->inode == inode)) {
		d = d->next;
	}
	return d != 0;
}

void database_release(database *d) {
	sqlite3_mutex *m = lock();
	if (--d->handles == 0) {
		database **at = &databases;
		while (*at != d) {
			at = &(*at)->next;
		}
		*at = d->next;
		for (int i = 0; i < CHUNKS; i++) {
			free(d->chunks[i]);
		}
		free(d->path);
		free(d);
	}
	descriptors_close(in_use);
	sqlite3_mutex_leave(m);
}

int database_same(database *d) {
	struct stat at;
	if (stat(d->path, &at) != 0) {
		return 0;
	}
	sqlite3_mutex *m = lock();
	if (!d->known) {
		d->known = 1;
		d->device = at.st_dev;
		d->inode = at.st_ino;
	}
	int same = d->device == at.st_dev && d->inode == at.st_ino;
	sqlite3_mutex_leave(m);
	return same;
}

int database_open(database *d, int flags) {
	sqlite3_mutex *m = lock();
	int fd = descriptor_open(d->path, flags);
	sqlite3_mutex_leave(m);
	return fd;
}

void database_close(database *d, int fd) {
	sqlite3_mutex *m = lock();
	descriptor_release(fd);
	sqlite3_mutex_leave(m);
	database_release(d);
}

int database_lock(int fd, int on) {
	sqlite3_mutex *m = lock();
	int err = descriptor_lock(fd, on);
	sqlite3_mutex_leave(m);
	return err;
}

int database_summed(database *d) { return __atomic_load_n(&d->summed, __ATOMIC_ACQUIRE); }

void database_set_summed(database *d, int summed) { __atomic_store_n(&d->summed, summed, __ATOMIC_RELEASE); }

int database_sealed(database *d) { return __atomic_load_n(&d->sealed, __ATOMIC_ACQUIRE); }

void database_seal(database *d, int sealed) { __atomic_store_n(&d->sealed, sealed, __ATOMIC_RELEASE); }

int log_sealed(const char *name) {
	int length = (int)strlen(name) - LOG_SUFFIX;
	sqlite3_mutex *m = lock();
	database *d = length < 0 || strcmp(name + length, "-wal") != 0 ? 0 : find(name, length);
	int sealed = d && database_sealed(d);
	sqlite3_mutex_leave(m);
	return sealed;
}

uint32_t big_endian(const uint8_t *p) {
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int header_big(const uint8_t header[WAL_HEADER]) { return header[3] & 1; }

uint32_t header_page(const uint8_t header[WAL_HEADER]) {
	uint32_t page = big_endian(header + 8);
	return page >= 512 && page <= 65536 && (page & (page - 1)) == 0 ? page : 0;
}

void log_set_header(database *d, const uint8_t header[WAL_HEADER]) {
	memcpy(d->start, header + 24, 8);
	d->big = header_big(header);
	__atomic_store_n(&d->page, header_page(header), __ATOMIC_RELEASE);
}

uint32_t log_page(database *d, int *big) {
	uint32_t page = __atomic_load_n(&d->page, __ATOMIC_ACQUIRE);
	*big = d->big;
	return page;
}

const uint8_t *log_start(database *d) { return __atomic_load_n(&d->page, __ATOMIC_ACQUIRE) ? d->start : 0; }

frame *log_frame(database *d, sqlite3_int64 n, int make) {
	if (n < 0 || n / CHUNK >= CHUNKS) {
		return 0;
	}
	frame **at = &d->chunks[n / CHUNK];
	frame *chunk = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	if (!chunk && make && (chunk = calloc(CHUNK, sizeof *chunk))) {
		__atomic_store_n(at, chunk, __ATOMIC_RELEASE); // only one connection at a time writes to the log
	}
	return chunk ? &chunk[n % CHUNK] : 0;
}
