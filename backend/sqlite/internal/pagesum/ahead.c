// Reading ahead in the database file. To read the table from one end to the other, SQLite asks for one page at a time,
// and a call into the kernel for each costs as much as all else that is done for the page. Here a connection that reads
// page after page gets several with one call: so few that they are still in the processor's cache when SQLite asks for
// them.
//
// What was read ahead is used only while the connection holds the lock of its snapshot. Until it releases that, no
// checkpoint writes a page that SQLite reads from the file: it copies only frames that are in the snapshot, and SQLite
// reads their pages from the log. A page that a checkpoint writes meanwhile may be torn in the buffer, but is not read.
#include <stdlib.h>
#include <string.h>

#include "files.h"

#define CAPACITY 32768
#define ORDERLY 4 // pages that must have been read in order

// in_order reports whether enough pages before this one were read in order, with gaps that waste little.
static int in_order(file *h, int amount, sqlite3_int64 at) {
	sqlite3_int64 gap = at - h->ahead_next;
	h->ahead_next = at + amount;
	h->ahead_ordered = gap >= 0 && gap <= CAPACITY / 4 ? h->ahead_ordered + 1 : 0;
	return h->ahead_ordered > ORDERLY;
}

// fill reads the buffer from the file. At the end of the file it does not.
static int fill(file *h, sqlite3_int64 at) {
	h->ahead_length = 0;
	if (!h->ahead && !(h->ahead = malloc(CAPACITY))) {
		return 0;
	}
	if (read_below(&h->base, h->ahead, CAPACITY, at) != SQLITE_OK) {
		h->ahead_ordered = -CAPACITY / 512; // a bad sector is not read again with each page before it
		return 0;
	}
	h->ahead_at = at;
	h->ahead_length = CAPACITY;
	return 1;
}

int ahead_read(file *h, void *data, int amount, sqlite3_int64 at) {
	if (h->snapshot && amount >= 512 && amount <= CAPACITY) {
		int ordered = in_order(h, amount, at);
		int there = at >= h->ahead_at && at + amount <= h->ahead_at + h->ahead_length;
		if (there || (ordered && fill(h, at))) {
			memcpy(data, h->ahead + (at - h->ahead_at), amount);
			return SQLITE_OK;
		}
	}
	return read_below(&h->base, data, amount, at);
}

void ahead_begin(file *h) { h->snapshot = 1; }

void ahead_end(file *h) { h->snapshot = h->ahead_length = 0; }
