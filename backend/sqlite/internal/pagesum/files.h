// The files of the VFS: the database file, and its log.
#ifndef PAGESUM_FILES_H
#define PAGESUM_FILES_H

#include "database.h"

// file precedes the file of the VFS below in memory.
typedef struct {
	sqlite3_file base;
	database *shared;
	int verify; // pages that are read must match their checksums
	sqlite3_int64 header; // of the log: where a header of a frame was written whose page comes next, or 0
} file;

// below returns the file of the VFS below.
sqlite3_file *below(sqlite3_file *f);
// read_below reads from it. A disk that fails is no damage: SQLite would report it as a malformed database.
int read_below(sqlite3_file *f, void *data, int amount, sqlite3_int64 at);

int database_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int database_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);
int log_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int log_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);

#endif
