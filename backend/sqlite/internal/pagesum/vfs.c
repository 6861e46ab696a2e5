#include "vfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

sqlite3_file *below(sqlite3_file *f) { return (sqlite3_file *)((file *)f + 1); }

int read_below(sqlite3_file *f, void *data, int amount, sqlite3_int64 at) {
	int err = below(f)->pMethods->xRead(below(f), data, amount, at);
	return err == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : err;
}

static sqlite3_vfs *vfs_below(sqlite3_vfs *v) { return v->pAppData; }

static int close_file(sqlite3_file *f) {
	file *h = (file *)f;
	if (h->database) {
		h->database->log = 0;
	}
	if (h->end > 0) {
		close(h->end - 1);
	}
	free(h->buffer);
	free(h->ahead);
	int err = below(f)->pMethods->xClose(below(f));
	database_release(h->shared);
	return err;
}

static int truncate_file(sqlite3_file *f, sqlite3_int64 size) {
	if (database_sealed(((file *)f)->shared)) {
		return SQLITE_IOERR_TRUNCATE;
	}
	int err = log_flush((file *)f);
	return err != SQLITE_OK ? err : below(f)->pMethods->xTruncate(below(f), size);
}

// The syncs of this thread while it measures them, in nanoseconds since it began.
static __thread struct {
	int on;
	int64_t began, first, took;
} syncs;

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void syncs_measure(void) {
	memset(&syncs, 0, sizeof syncs);
	syncs.on = 1;
	syncs.began = now();
}

void syncs_measured(int64_t *first, int64_t *took) {
	syncs.on = 0;
	*first = syncs.first, *took = syncs.took;
}

// sync_below seals the database after a failed sync: pages that it left out may be taken for written, so that a later
// sync succeeds without them. Only the log still has them then.
static int sync_below(sqlite3_file *f, int flags) {
	int64_t began = syncs.on ? now() : 0;
	int err = below(f)->pMethods->xSync(below(f), flags);
	if (err != SQLITE_OK) {
		database_seal(((file *)f)->shared, 1);
	}
	if (syncs.on) {
		if (!syncs.took) {
			syncs.first = began - syncs.began;
		}
		syncs.took += now() - began;
	}
	return err;
}

static int sync_database(sqlite3_file *f, int flags) {
	return database_sealed(((file *)f)->shared) ? SQLITE_IOERR_FSYNC : sync_below(f, flags);
}

static int sync_log(sqlite3_file *f, int flags) {
	int err = log_flush((file *)f);
	return err != SQLITE_OK ? err : sync_below(f, flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size) {
	int err = log_flush((file *)f);
	return err != SQLITE_OK ? err : below(f)->pMethods->xFileSize(below(f), size);
}

static int lock_file(sqlite3_file *f, int level) { return below(f)->pMethods->xLock(below(f), level); }

static int unlock_file(sqlite3_file *f, int level) { return below(f)->pMethods->xUnlock(below(f), level); }

static int check_lock(sqlite3_file *f, int *held) { return below(f)->pMethods->xCheckReservedLock(below(f), held); }

static int file_control(sqlite3_file *f, int op, void *arg) {
	return below(f)->pMethods->xFileControl(below(f), op, arg);
}

static int sector_size(sqlite3_file *f) { return below(f)->pMethods->xSectorSize(below(f)); }

// A part of a page cannot be verified, so only whole pages may be read.
static int characteristics(sqlite3_file *f) {
	return below(f)->pMethods->xDeviceCharacteristics(below(f)) & ~SQLITE_IOCAP_SUBPAGE_READ;
}

static int shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **to) {
	return below(f)->pMethods->xShmMap(below(f), page, size, extend, to);
}

#define WRITE_LOCK 0 // the number of the lock that a transaction holds while it writes to the log
#define READ_LOCKS 3 // that of the first of those of which a transaction holds one, shared, while it has a snapshot

static int shm_lock(sqlite3_file *f, int offset, int n, int flags) {
	file *h = (file *)f;
	int of_snapshot = offset >= READ_LOCKS && !(flags & SQLITE_SHM_EXCLUSIVE);
	if (of_snapshot) {
		ahead_end(h); // before the lock is released, and for the next one
	}
	file *log = offset == WRITE_LOCK && flags & SQLITE_SHM_EXCLUSIVE ? h->log : 0;
	if (log && flags & SQLITE_SHM_UNLOCK) {
		log_discard(log);
		log->locked = 0;
	}
	int err = below(f)->pMethods->xShmLock(below(f), offset, n, flags);
	if (err == SQLITE_OK && flags & SQLITE_SHM_LOCK) {
		if (log) {
			log->locked = 1;
		} else if (of_snapshot) {
			ahead_begin(h);
		}
	}
	return err;
}

static void shm_barrier(sqlite3_file *f) { below(f)->pMethods->xShmBarrier(below(f)); }

static int shm_unmap(sqlite3_file *f, int remove) { return below(f)->pMethods->xShmUnmap(below(f), remove); }

// A page that is mapped into memory cannot be verified when it is read.
static int fetch(sqlite3_file *f, sqlite3_int64 at, int amount, void **to) {
	(void)f, (void)at, (void)amount;
	*to = 0;
	return SQLITE_OK;
}

static int unfetch(sqlite3_file *f, sqlite3_int64 at, void *page) {
	(void)f, (void)at, (void)page;
	return SQLITE_OK;
}

#define METHODS(read, write, sync) \
	{ \
		3, close_file, read, write, truncate_file, sync, file_size, lock_file, unlock_file, check_lock, \
			file_control, sector_size, characteristics, shm_map, shm_lock, shm_barrier, shm_unmap, fetch, unfetch \
	}

static const sqlite3_io_methods of_database = METHODS(database_read, database_write, sync_database);
static const sqlite3_io_methods of_log = METHODS(log_read, log_write, sync_log);

static int open_file(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out) {
	int log = (flags & SQLITE_OPEN_WAL) != 0;
	if (!name || !(log || flags & SQLITE_OPEN_MAIN_DB)) {
		return vfs_below(v)->xOpen(vfs_below(v), name, f, flags, out);
	}
	file *h = (file *)f;
	memset(h, 0, sizeof *h);
	h->verify = sqlite3_uri_boolean(name, "verify", 1);
	h->shared = database_acquire(name, (int)strlen(name) - (log ? LOG_SUFFIX : 0));
	if (!h->shared) {
		return SQLITE_NOMEM;
	}
	int err = vfs_below(v)->xOpen(vfs_below(v), name, below(f), flags, out);
	if (err == SQLITE_OK && !log && !database_same(h->shared)) {
		// The log at the path belongs to the file that was replaced.
		below(f)->pMethods->xClose(below(f));
		err = SQLITE_CANTOPEN;
	}
	if (err != SQLITE_OK) {
		database_release(h->shared);
		return err;
	}
	if (!log && sqlite3_uri_boolean(name, "summed", 0)) {
		database_set_summed(h->shared, 1);
	}
	file *main = log ? (file *)sqlite3_database_file_object(name) : 0;
	if (main && main->base.pMethods == &of_database) { // and not that of a VFS above this one
		h->database = main;
		main->log = h;
	}
	h->path = name;
	f->pMethods = log ? &of_log : &of_database;
	return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *v, const char *name, int sync) {
	if (log_sealed(name)) {
		return SQLITE_IOERR_DELETE;
	}
	return vfs_below(v)->xDelete(vfs_below(v), name, sync);
}

static int access_file(sqlite3_vfs *v, const char *name, int flags, int *out) {
	return vfs_below(v)->xAccess(vfs_below(v), name, flags, out);
}

static int full_pathname(sqlite3_vfs *v, const char *name, int n, char *out) {
	return vfs_below(v)->xFullPathname(vfs_below(v), name, n, out);
}

static void *dl_open(sqlite3_vfs *v, const char *name) { return vfs_below(v)->xDlOpen(vfs_below(v), name); }

static void dl_error(sqlite3_vfs *v, int n, char *out) { vfs_below(v)->xDlError(vfs_below(v), n, out); }

static void (*dl_sym(sqlite3_vfs *v, void *library, const char *name))(void) {
	return vfs_below(v)->xDlSym(vfs_below(v), library, name);
}

static void dl_close(sqlite3_vfs *v, void *library) { vfs_below(v)->xDlClose(vfs_below(v), library); }

static int randomness(sqlite3_vfs *v, int n, char *out) { return vfs_below(v)->xRandomness(vfs_below(v), n, out); }

static int sleep_for(sqlite3_vfs *v, int microseconds) { return vfs_below(v)->xSleep(vfs_below(v), microseconds); }

static int current_time(sqlite3_vfs *v, double *out) { return vfs_below(v)->xCurrentTime(vfs_below(v), out); }

static int last_error(sqlite3_vfs *v, int n, char *out) { return vfs_below(v)->xGetLastError(vfs_below(v), n, out); }

static int current_time_64(sqlite3_vfs *v, sqlite3_int64 *out) {
	return vfs_below(v)->xCurrentTimeInt64(vfs_below(v), out);
}

static sqlite3_vfs checksums = {
	.iVersion = 2,
	.xOpen = open_file,
	.xDelete = delete_file,
	.xAccess = access_file,
	.xFullPathname = full_pathname,
	.xDlOpen = dl_open,
	.xDlError = dl_error,
	.xDlSym = dl_sym,
	.xDlClose = dl_close,
	.xRandomness = randomness,
	.xSleep = sleep_for,
	.xCurrentTime = current_time,
	.xGetLastError = last_error,
	.xCurrentTimeInt64 = current_time_64,
};

int pagesum_register(const char *name) {
	sqlite3_vfs *standard = sqlite3_vfs_find(0);
	if (!standard || standard->iVersion < 2) {
		return SQLITE_ERROR;
	}
	checksums.zName = name;
	checksums.pAppData = standard;
	checksums.mxPathname = standard->mxPathname;
	checksums.szOsFile = standard->szOsFile + (int)sizeof(file);
	return sqlite3_vfs_register(&checksums, 0);
}

int pagesum_open(const char *path, int flags, database **opened) {
	char *full = calloc(1, checksums.mxPathname + 1);
	if (!full) {
		return -ENOMEM;
	}
	// SQLite opens the database by this name, which has no symbolic links.
	int fd = -EINVAL;
	if ((full_pathname(&checksums, path, checksums.mxPathname, full) & 0xff) == SQLITE_OK) {
		database *d = database_acquire(full, (int)strlen(full));
		fd = d ? database_open(d, flags) : -ENOMEM;
		if (d && fd < 0) {
			database_release(d);
		} else {
			*opened = d;
		}
	}
	free(full);
	return fd;
}

void use_temp_dir(const char *dir) {
	char *copy = sqlite3_mprintf("%s", dir); // SQLite's own statements may free it
	sqlite3_mutex *mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
	sqlite3_mutex_enter(mutex);
	sqlite3_free(sqlite3_temp_directory);
	sqlite3_temp_directory = copy;
	sqlite3_mutex_leave(mutex);
}
