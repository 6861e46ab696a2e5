// Pages of the database file.
#include <string.h>

#include "files.h"

#define RESERVED 20 // where the header of the database says how many bytes of each page are reserved

static const char magic[16] = "SQLite format 3";

// is_page reports whether this is a whole page, and not a part of the header.
static int is_page(int amount, sqlite3_int64 at) {
	return amount >= 512 && (amount & (amount - 1)) == 0 && at % amount == 0;
}

static int is_header(const void *data, int amount, sqlite3_int64 at) {
	return at == 0 && amount >= 100 && memcmp(data, magic, sizeof magic) == 0;
}

// unsigned_first reports whether the first page is that of a file without checksums. If only the number of reserved
// bytes is damaged, the page still matches its checksum with the right one.
static int unsigned_first(uint8_t *page, int amount) {
	uint8_t reserved = page[RESERVED];
	page[RESERVED] = CHECKSUMS;
	int damaged = page_valid(page, amount);
	page[RESERVED] = reserved;
	return !damaged;
}

int database_read(sqlite3_file *f, void *data, int amount, sqlite3_int64 at) {
	int err = read_below(f, data, amount, at);
	if (err != SQLITE_OK) {
		return err;
	}
	file *h = (file *)f;
	if (is_header(data, amount, at)) {
		int summed = ((uint8_t *)data)[RESERVED] == CHECKSUMS;
		if (!summed && h->verify && is_page(amount, at) && !unsigned_first(data, amount)) {
			return SQLITE_IOERR_DATA;
		}
		if (summed) {
			database_set_summed(h->shared, 1);
		}
	}
	if (h->verify && database_summed(h->shared) && is_page(amount, at) && !page_valid(data, amount)) {
		return SQLITE_IOERR_DATA;
	}
	return SQLITE_OK;
}

int database_write(sqlite3_file *f, const void *data, int amount, sqlite3_int64 at) {
	file *h = (file *)f;
	if (is_header(data, amount, at)) {
		database_set_summed(h->shared, ((const uint8_t *)data)[RESERVED] == CHECKSUMS);
	}
	if (is_page(amount, at) && database_summed(h->shared)) {
		// SQLite leaves the reserved bytes of its buffer to the VFS.
		page_sign((uint8_t *)data, amount);
	}
	return below(f)->pMethods->xWrite(below(f), data, amount, at);
}
