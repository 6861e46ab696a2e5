// The files of the VFS: the database file and its log.
#ifndef PAGESUM_FILES_H
#define PAGESUM_FILES_H

#include "database.h"

// file is followed in memory by the file of the underlying VFS.
typedef struct {
	sqlite3_file base;
	database *shared;
	int verify; // pages that are read must match their checksums
	sqlite3_int64 header; // of the log: offset of the last frame header if its page is not written yet, or 0
} file;

// below returns the file of the underlying VFS.
sqlite3_file *below(sqlite3_file *f);
// read_below reads from it. It returns a plain read error for a failing disk, which SQLite would otherwise report as a
// malformed database.
int read_below(sqlite3_file *f, void *data, int amount, sqlite3_int64 at);

int database_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int database_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);
int log_read(sqlite3_file *, void *, int amount, sqlite3_int64 at);
int log_write(sqlite3_file *, const void *, int amount, sqlite3_int64 at);

#endif
