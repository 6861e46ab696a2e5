// Frames of the write-ahead log. SQLite's sum of a frame continues that of the frame before, but SQLite verifies it
// only when it recovers a log. Here every page is verified when it is read, also by a checkpoint.
#include <string.h>

#include "files.h"

// frame_number returns the number of the frame that begins at the offset, -1 if none does.
static sqlite3_int64 frame_number(sqlite3_int64 at, uint32_t page) {
	at -= WAL_HEADER;
	return page && at >= 0 && at % (page + FRAME_HEADER) == 0 ? at / (page + FRAME_HEADER) : -1;
}

// unfinished reports whether the header has no sum yet. Once a transaction has rewritten a frame, SQLite writes the
// sums of that frame and of later ones at the commit.
static int unfinished(const uint8_t header[FRAME_HEADER]) {
	static const uint8_t none[16];
	return memcmp(header + 8, none, sizeof none) == 0;
}

// set stores a frame's header.
static void set(frame *fr, const uint8_t header[FRAME_HEADER]) {
	memcpy(fr->head, header, sizeof fr->head);
	memcpy(fr->sum, header + 16, sizeof fr->sum);
	fr->state = unfinished(header) ? FRAME_CHANGING : FRAME_KNOWN;
}

// changed records a write inside a frame, at the offset.
static void changed(file *h, int amount, sqlite3_int64 at, uint32_t page) {
	sqlite3_int64 begins = at - (at - WAL_HEADER) % (page + FRAME_HEADER);
	if (begins == h->header && at == begins + FRAME_HEADER) {
		h->header = 0; // the header covers this page, but no later write over it
		return;
	}
	frame *fr = log_frame(h->shared, frame_number(begins, page), 0);
	if (fr) {
		// A transaction that does not fit into its cache rewrites whole pages. After anything else the file decides.
		fr->state = at == begins + FRAME_HEADER && (uint32_t)amount == page ? FRAME_CHANGING : FRAME_UNKNOWN;
	}
}

// put writes to the file, or to the buffer what belongs to a frame without a commit mark.
static int put(file *h, const void *data, int amount, sqlite3_int64 at, uint32_t page) {
	if (h->locked && amount == FRAME_HEADER && frame_number(at, page) >= 0) {
		int commits = big_endian((const uint8_t *)data + 4) != 0;
		return commits ? log_commit(h, data, amount, at) : log_append(h, data, amount, at);
	}
	if (log_follows(h, at) && (uint32_t)amount == page) {
		return log_append(h, data, amount, at);
	}
	int err = log_flush(h);
	return err != SQLITE_OK ? err : log_store(h, data, amount, at);
}

int log_write(sqlite3_file *f, const void *data, int amount, sqlite3_int64 at) {
	file *h = (file *)f;
	int big;
	uint32_t page = log_page(h->shared, &big);
	int err = put(h, data, amount, at, page);
	if (err != SQLITE_OK) {
		return err;
	}
	if (at == 0 && amount == WAL_HEADER) {
		log_set_header(h->shared, data);
	} else if (amount == FRAME_HEADER && frame_number(at, page) >= 0) {
		frame *fr = log_frame(h->shared, frame_number(at, page), 1);
		if (fr) {
			set(fr, data);
		}
		h->header = at;
	} else if (page && at >= WAL_HEADER) {
		changed(h, amount, at, page);
	}
	return SQLITE_OK;
}

// from_file reads the header of the frame that begins at the offset.
static int from_file(file *h, sqlite3_int64 at, frame *fr) {
	uint8_t header[FRAME_HEADER];
	int err = read_below(&h->base, header, sizeof header, at);
	set(fr, header);
	return err;
}

// read_header reads the header of a log that another process has begun. An invalid one replaces nothing.
static int read_header(file *h) {
	uint8_t header[WAL_HEADER];
	int err = read_below(&h->base, header, sizeof header, 0);
	if (err != SQLITE_OK) {
		return err;
	}
	sum s = sum_add((sum){0, 0}, header, sizeof header - 8, header_big(header));
	if (!header_page(header) || s.s1 != big_endian(header + 24) || s.s2 != big_endian(header + 28)) {
		return SQLITE_IOERR_DATA;
	}
	log_set_header(h->shared, header);
	return SQLITE_OK;
}

// matches reports whether the sum at start, continued with the frame's header and page, is that of the frame.
static int matches(const frame *fr, const uint8_t *start, const uint8_t *data, uint32_t page, int big) {
	sum s = {big_endian(start), big_endian(start + 4)};
	s = sum_add(s, fr->head, sizeof fr->head, big);
	s = sum_add(s, data, page, big);
	return s.s1 == big_endian(fr->sum) && s.s2 == big_endian(fr->sum + 4);
}

// as_written reports whether the page is the one that this process wrote to the frame at the offset.
static int as_written(file *h, const uint8_t *data, uint32_t page, int big, sqlite3_int64 at) {
	frame *fr = log_frame(h->shared, frame_number(at, page), 0);
	if (!fr || fr->state == FRAME_UNKNOWN) {
		return 0;
	}
	if (fr->state == FRAME_CHANGING) {
		return 1; // only its own transaction reads it, in this process
	}
	if (at == WAL_HEADER) {
		return matches(fr, log_start(h->shared), data, page, big);
	}
	frame *before = log_frame(h->shared, frame_number(at, page) - 1, 0);
	return before && before->state != FRAME_UNKNOWN && matches(fr, before->sum, data, page, big);
}

// as_in_file reports whether the page matches the sums in the file. Frames that another process has written are always
// finished, so a header without a sum is damage, such as a block of zeros, although the sum of zeros is zero.
static int as_in_file(file *h, const uint8_t *data, uint32_t page, int big, sqlite3_int64 at, int *err) {
	frame fr, before;
	*err = from_file(h, at, &fr);
	if (*err != SQLITE_OK || fr.state != FRAME_KNOWN) {
		return 0;
	}
	if (at > WAL_HEADER) {
		*err = from_file(h, at - FRAME_HEADER - page, &before);
		return *err == SQLITE_OK && matches(&fr, before.sum, data, page, big);
	}
	*err = read_header(h);
	return *err == SQLITE_OK && matches(&fr, log_start(h->shared), data, page, big);
}

int log_read(sqlite3_file *f, void *data, int amount, sqlite3_int64 at) {
	file *h = (file *)f;
	int err = log_flush(h);
	if (err == SQLITE_OK) {
		err = read_below(f, data, amount, at);
	}
	if ((err != SQLITE_OK && err != SQLITE_IOERR_SHORT_READ) || !h->verify || amount < 512 ||
		at < WAL_HEADER + FRAME_HEADER) {
		return err;
	}
	int big;
	uint32_t page = log_page(h->shared, &big);
	if (err != SQLITE_OK) { // SQLite reads pages only of frames that were written
		return (uint32_t)amount == page && frame_number(at - FRAME_HEADER, page) >= 0 ? SQLITE_IOERR_DATA : err;
	}
	if (!page) {
		if ((err = read_header(h)) != SQLITE_OK) {
			return err;
		}
		page = log_page(h->shared, &big);
	}
	at -= FRAME_HEADER;
	if ((uint32_t)amount != page || frame_number(at, page) < 0 || as_written(h, data, page, big, at)) {
		return SQLITE_OK;
	}
	int ok = as_in_file(h, data, page, big, at, &err);
	return err != SQLITE_OK ? err : ok ? SQLITE_OK : SQLITE_IOERR_DATA;
}
