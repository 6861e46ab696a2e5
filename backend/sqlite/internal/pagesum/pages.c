// Pages of the database file.
#include <string.h>

#include "files.h"

#define RESERVED_AT 20 // offset in the database header of the number of reserved bytes in each page

static const char magic[16] = "SQLite format 3";

// is_page reports whether this is a whole page, not just a part of the header.
static int is_page(int amount, sqlite3_int64 at) {
	return amount >= 512 && (amount & (amount - 1)) == 0 && at % amount == 0;
}

static int is_header(const void *data, int amount, sqlite3_int64 at) {
	return at == 0 && amount >= 100 && memcmp(data, magic, sizeof magic) == 0;
}

// has_no_checksums reports whether a first page belongs to a file without checksums. If only its number of reserved
// bytes is damaged, the page matches its checksum once that number is restored.
static int has_no_checksums(uint8_t *page, int amount) {
	uint8_t reserved = page[RESERVED_AT];
	page[RESERVED_AT] = CHECKSUM_SIZE;
	int damaged = page_valid(page, amount);
	page[RESERVED_AT] = reserved;
	return !damaged;
}

int database_read(sqlite3_file *f, void *data, int amount, sqlite3_int64 at) {
	file *h = (file *)f;
	int err = ahead_read(h, data, amount, at);
	if (err != SQLITE_OK) {
		return err;
	}
	if (is_header(data, amount, at)) {
		int summed = ((uint8_t *)data)[RESERVED_AT] == CHECKSUM_SIZE;
		if (!summed && h->verify && is_page(amount, at) && !has_no_checksums(data, amount)) {
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
	if (database_sealed(h->shared)) {
		return SQLITE_IOERR_WRITE;
	}
	if (is_header(data, amount, at)) {
		database_set_summed(h->shared, ((const uint8_t *)data)[RESERVED_AT] == CHECKSUM_SIZE);
	}
	if (is_page(amount, at) && database_summed(h->shared)) {
		// SQLite leaves the reserved bytes of its buffer to the VFS.
		page_sign((uint8_t *)data, amount);
	}
	return below(f)->pMethods->xWrite(below(f), data, amount, at);
}
