#ifndef PAGESUM_VFS_H
#define PAGESUM_VFS_H

// pagesum_register makes the VFS known to SQLite, and returns SQLite's error code.
int pagesum_register(const char *name);

#endif
