// What the connections of this process share about one database.
#ifndef PAGESUM_DATABASE_H
#define PAGESUM_DATABASE_H

#include <stdint.h>

#include "sqlite.h"
#include "sum.h"

#define WAL_HEADER 32
#define FRAME_HEADER 24
#define CHECKSUMS 8 // bytes that are reserved in each page for its checksum

typedef struct database database;

// database_of returns what is shared about the database at path, and database_leave gives it back.
database *database_of(const char *path, int length);
void database_leave(database *);

// summed is set while the pages of the file have checksums. All connections must learn that at once, because any of
// them may be the next to write a page.
int database_summed(database *);
void database_set_summed(database *, int summed);

// frame is what a frame of the log can be verified with: the part of its header that is summed, its own sum, and
// whether these are known.
typedef struct {
	uint8_t head[8];
	uint8_t sum[8];
	uint32_t state;
} frame;

enum { FRAME_UNKNOWN, FRAME_KNOWN, FRAME_CHANGING };

// log_header notes the header of the log as it is written.
void log_header(database *, const uint8_t header[WAL_HEADER]);
// log_start returns the sum that the first frame continues, or 0 if no header was written yet.
const uint8_t *log_start(database *);
// log_page returns the bytes in a page of the log and the order of bytes in its sums, 0 if no header was written yet.
uint32_t log_page(database *, int *big);
// log_frame returns frame number n, counting from 0, or 0 if it is not known. It makes room for it if make is set.
frame *log_frame(database *, sqlite3_int64 n, int make);

// header_big reports whether the sums of a log with this header read words most significant byte first; header_page
// returns the bytes in its pages.
int header_big(const uint8_t header[WAL_HEADER]);
uint32_t header_page(const uint8_t header[WAL_HEADER]);
uint32_t big_endian(const uint8_t *);

#endif
