// SQLite's checksum of the frames of a write-ahead log, which cksumvfs also uses for pages.
#ifndef PAGESUM_SUM_H
#define PAGESUM_SUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
	uint32_t s1, s2;
} sum;

// sum_add returns the sum start continued with data, whose length must be a multiple of 8 bytes, as big-endian words if
// big is set.
sum sum_add(sum start, const uint8_t *data, size_t length, int big);

// page_valid reports whether the last 8 bytes of a page are the checksum of the others. page_sign sets them.
int page_valid(const uint8_t *page, size_t length);
void page_sign(uint8_t *page, size_t length);

#endif
