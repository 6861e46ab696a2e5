// The files of the VFS: the database file and its log.
#ifndef PAGESUM_FILES_H
#define PAGESUM_FILES_H

#include "database.h"

// file is followed in memory by the file of the underlying VFS.
typedef struct file file;
struct file {
	sqlite3_file base;
	database *shared;
	int verify; // pages that are read must match their checksums

	file *log; // of a database: the log of the same connection while it is open
	int snapshot; // of a database: its connection holds the lock of a snapshot: see ahead.c
	char *ahead; // of a database: what was read ahead; NULL before the first time
	int ahead_length; // bytes in it
	sqlite3_int64 ahead_at; // the offset of the first one in the file
	sqlite3_int64 ahead_next; // the end of the last page that was read
	int ahead_ordered; // how many pages were read in order

	file *database; // of a log: the database of the same connection
	sqlite3_int64 header; // of a log: offset of the last frame header if its page is not written yet, or 0
	const char *path; // of a log: SQLite keeps it while the file is open
	int end; // of a log: one more than a descriptor that says where it ends, 0 before the first write, -1 if there is none
	int locked; // of a log: its connection holds the write lock, so writes are buffered: see buffer.c
	char *buffer; // of a log: NULL before the first write
	int buffered; // bytes in it
	sqlite3_int64 buffer_at; // the offset of the first one in the file
};

// below returns the file of the underlying VFS.
sqlite3_file *below(sqlite3_file *f);
// read_below reads from it. It returns a plain read error for a failing disk, which SQLite would otherwise report as a
// malformed database.
int read_below(sqlite3_file *f, void *data, int amount, sqlite3_int64 at);

int database_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int database_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);
int log_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int log_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);

// ahead_read reads from a database. ahead_begin and ahead_end enclose the time in which the connection has a snapshot.
int ahead_read(file *, void *data, int amount, sqlite3_int64 at);
void ahead_begin(file *);
void ahead_end(file *);

// log_store writes to a log, unless the log ends before the offset.
int log_store(file *, const void *, int amount, sqlite3_int64 at);

// log_append puts data into the write buffer, which it flushes first if they do not fit. log_commit flushes it with the
// header of a frame that has a commit mark. log_flush writes all that is buffered; after an error it is still there.
// log_discard forgets it. log_follows reports whether the offset is where the buffered bytes end.
int log_append(file *, const void *, int amount, sqlite3_int64 at);
int log_commit(file *, const void *header, int amount, sqlite3_int64 at);
int log_flush(file *);
void log_discard(file *);
int log_follows(const file *, sqlite3_int64 at);

#endif
