#ifndef PACK_H
#define PACK_H

// pack_register makes the function known to all connections that SQLite opens later, and returns SQLite's error code.
int pack_register(void);

#endif
