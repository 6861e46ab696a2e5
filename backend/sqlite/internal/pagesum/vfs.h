#ifndef PAGESUM_VFS_H
#define PAGESUM_VFS_H

// pagesum_register registers the VFS with SQLite and returns SQLite's error code.
int pagesum_register(const char *name);

#endif
