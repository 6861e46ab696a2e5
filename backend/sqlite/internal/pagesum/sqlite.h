// The part of SQLite's interface that a VFS needs. SQLite promises not to change it within version 3, so this file
// declares it and needs no installed header: https://sqlite.org/c3ref/vfs.html.
#ifndef PAGESUM_SQLITE_H
#define PAGESUM_SQLITE_H

#define SQLITE_OK 0
#define SQLITE_ERROR 1
#define SQLITE_NOMEM 7
#define SQLITE_CANTOPEN 14
#define SQLITE_IOERR_READ (10 | (1 << 8))
#define SQLITE_IOERR_SHORT_READ (10 | (2 << 8))
#define SQLITE_IOERR_WRITE (10 | (3 << 8))
#define SQLITE_IOERR_FSYNC (10 | (4 << 8))
#define SQLITE_IOERR_TRUNCATE (10 | (6 << 8))
#define SQLITE_IOERR_DELETE (10 | (10 << 8))
#define SQLITE_IOERR_DATA (10 | (32 << 8))
#define SQLITE_IOERR_CORRUPTFS (10 | (33 << 8))

#define SQLITE_OPEN_MAIN_DB 0x00000100
#define SQLITE_OPEN_WAL 0x00080000

#define SQLITE_SHM_UNLOCK 1
#define SQLITE_SHM_LOCK 2
#define SQLITE_SHM_EXCLUSIVE 8

#define SQLITE_IOCAP_SUBPAGE_READ 0x00008000
#define SQLITE_MUTEX_STATIC_VFS1 11 // also guards sqlite3_temp_directory

typedef long long int sqlite3_int64;
typedef struct sqlite3_vfs sqlite3_vfs;
typedef struct sqlite3_file sqlite3_file;
typedef struct sqlite3_mutex sqlite3_mutex;
typedef void (*sqlite3_syscall_ptr)(void);

typedef struct sqlite3_io_methods {
	int iVersion;
	int (*xClose)(sqlite3_file *);
	int (*xRead)(sqlite3_file *, void *, int amount, sqlite3_int64 at);
	int (*xWrite)(sqlite3_file *, const void *, int amount, sqlite3_int64 at);
	int (*xTruncate)(sqlite3_file *, sqlite3_int64 size);
	int (*xSync)(sqlite3_file *, int flags);
	int (*xFileSize)(sqlite3_file *, sqlite3_int64 *size);
	int (*xLock)(sqlite3_file *, int);
	int (*xUnlock)(sqlite3_file *, int);
	int (*xCheckReservedLock)(sqlite3_file *, int *);
	int (*xFileControl)(sqlite3_file *, int op, void *);
	int (*xSectorSize)(sqlite3_file *);
	int (*xDeviceCharacteristics)(sqlite3_file *);
	int (*xShmMap)(sqlite3_file *, int page, int size, int, void volatile **);
	int (*xShmLock)(sqlite3_file *, int offset, int n, int flags);
	void (*xShmBarrier)(sqlite3_file *);
	int (*xShmUnmap)(sqlite3_file *, int remove);
	int (*xFetch)(sqlite3_file *, sqlite3_int64 at, int amount, void **);
	int (*xUnfetch)(sqlite3_file *, sqlite3_int64 at, void *);
} sqlite3_io_methods;

struct sqlite3_file {
	const sqlite3_io_methods *pMethods;
};

struct sqlite3_vfs {
	int iVersion;
	int szOsFile;
	int mxPathname;
	sqlite3_vfs *pNext;
	const char *zName;
	void *pAppData;
	int (*xOpen)(sqlite3_vfs *, const char *, sqlite3_file *, int flags, int *);
	int (*xDelete)(sqlite3_vfs *, const char *, int sync);
	int (*xAccess)(sqlite3_vfs *, const char *, int flags, int *);
	int (*xFullPathname)(sqlite3_vfs *, const char *, int, char *);
	void *(*xDlOpen)(sqlite3_vfs *, const char *);
	void (*xDlError)(sqlite3_vfs *, int, char *);
	void (*(*xDlSym)(sqlite3_vfs *, void *, const char *))(void);
	void (*xDlClose)(sqlite3_vfs *, void *);
	int (*xRandomness)(sqlite3_vfs *, int, char *);
	int (*xSleep)(sqlite3_vfs *, int microseconds);
	int (*xCurrentTime)(sqlite3_vfs *, double *);
	int (*xGetLastError)(sqlite3_vfs *, int, char *);
	int (*xCurrentTimeInt64)(sqlite3_vfs *, sqlite3_int64 *);
	int (*xSetSystemCall)(sqlite3_vfs *, const char *, sqlite3_syscall_ptr);
	sqlite3_syscall_ptr (*xGetSystemCall)(sqlite3_vfs *, const char *);
	const char *(*xNextSystemCall)(sqlite3_vfs *, const char *);
};

// The driver's package defines these. They are weak because cgo also links this package alone, where they stay
// undefined.
#ifdef __APPLE__
#define FROM_DRIVER extern
#else
#define FROM_DRIVER extern __attribute__((weak))
#endif
FROM_DRIVER sqlite3_vfs *sqlite3_vfs_find(const char *);
FROM_DRIVER int sqlite3_vfs_register(sqlite3_vfs *, int makeDefault);
FROM_DRIVER int sqlite3_uri_boolean(const char *, const char *, int);
FROM_DRIVER sqlite3_file *sqlite3_database_file_object(const char *);
FROM_DRIVER sqlite3_mutex *sqlite3_mutex_alloc(int);
FROM_DRIVER void sqlite3_mutex_enter(sqlite3_mutex *);
FROM_DRIVER void sqlite3_mutex_leave(sqlite3_mutex *);
FROM_DRIVER char *sqlite3_mprintf(const char *, ...);
FROM_DRIVER void sqlite3_free(void *);
FROM_DRIVER char *sqlite3_temp_directory;

#endif
