#ifndef PAGESUM_VFS_H
#define PAGESUM_VFS_H

#include <stdint.h>

#include "database.h"

// pagesum_register registers the VFS with SQLite and returns SQLite's error code.
int pagesum_register(const char *name);

// pagesum_open acquires the database at the path, and returns a descriptor of its file, opened with open's flags. It
// returns a negative errno and acquires nothing if that fails.
int pagesum_open(const char *path, int flags, database **);

// use_temp_dir makes SQLite create its temporary files in a directory.
void use_temp_dir(const char *dir);

// syncs_measure begins to measure the syncs that SQLite makes on this thread; syncs_measured ends that. first is when
// the first one began, in nanoseconds after the beginning, took is how long all of them took, 0 if there were none.
void syncs_measure(void);
void syncs_measured(int64_t *first, int64_t *took);

#endif
