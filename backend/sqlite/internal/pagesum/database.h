// The state of one database that all connections of this process share.
#ifndef PAGESUM_DATABASE_H
#define PAGESUM_DATABASE_H

#include <stdint.h>

#include "descriptors.h"
#include "sqlite.h"
#include "sum.h"

#define WAL_HEADER 32
#define FRAME_HEADER 24
#define CHECKSUM_SIZE 8 // bytes that are reserved in each page
#define LOG_SUFFIX 4 // the length of "-wal"

typedef struct database database;

// database_acquire returns the state of the database at path, NULL if memory is short. database_release gives it back.
database *database_acquire(const char *path, int length);
void database_release(database *);

// database_same reports whether the file at the database's path is the one that this process already has open. The first
// call says which one that is.
int database_same(database *);

// database_open returns a descriptor of the file, as descriptor_open does. database_close gives it back, and releases
// the database.
int database_open(database *, int flags);
void database_close(database *, int fd);

// database_lock is descriptor_lock.
int database_lock(int fd, int on);

// summed is set while the pages of the file have checksums. All connections must learn that at once, because any of
// them may be the next to write a page.
int database_summed(database *);
void database_set_summed(database *, int summed);

// sealed is set while no connection of this process may change the file, or delete its log, because another program
// has written to it. log_sealed says so of the log with that name.
int database_sealed(database *);
void database_seal(database *, int sealed);
int log_sealed(const char *name);

// frame holds what verifies a frame of the log: the part of its header that the sum covers, the sum, and whether both
// are known.
typedef struct {
	uint8_t head[8];
	uint8_t sum[8];
	uint32_t state;
} frame;

// FRAME_CHANGING: a transaction that has not ended yet has rewritten the frame; its sum follows with the commit.
enum { FRAME_UNKNOWN, FRAME_KNOWN, FRAME_CHANGING };

// log_set_header stores the header of the log.
void log_set_header(database *, const uint8_t header[WAL_HEADER]);
// log_start returns the sum that the first frame continues, or NULL if no header is known yet.
const uint8_t *log_start(database *);
// log_page returns the page size of the log, or 0 if no header is known yet, and whether its sums are big-endian.
uint32_t log_page(database *, int *big);
// log_frame returns frame number n, counting from 0, or NULL if it is not known. If make is set, it allocates it.
frame *log_frame(database *, sqlite3_int64 n, int make);

// header_big reports whether a log with this header sums big-endian words. header_page returns its page size, or 0 if
// that is invalid.
int header_big(const uint8_t header[WAL_HEADER]);
uint32_t header_page(const uint8_t header[WAL_HEADER]);
uint32_t big_endian(const uint8_t *);

#endif
