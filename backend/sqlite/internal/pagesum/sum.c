#include "sum.h"

#include <string.h>

static inline uint32_t word(const uint8_t *p, int big) {
	uint32_t w;
	memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return big ? w : __builtin_bswap32(w);
#else
	return big ? __builtin_bswap32(w) : w;
#endif
}

// step adds the next two words.
static inline void step(sum *s, const uint8_t *p, int big) {
	s->s1 += word(p, big) + s->s2;
	s->s2 += word(p + 4, big) + s->s1;
}

// A step that adds two zeros is a linear map, and so is any number of them.
typedef struct {
	uint32_t a, b, c, d; // s1 = a*s1 + b*s2, s2 = c*s1 + d*s2
} map;

static map after(map x, map y) {
	return (map){
		x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d,
	};
}

// steps returns the map of n steps.
static map steps(size_t n) {
	map done = {1, 0, 0, 1}, power = {1, 1, 1, 2};
	for (; n > 0; n >>= 1) {
		if (n & 1) {
			done = after(power, done);
		}
		power = after(power, power);
	}
	return done;
}

static sum joined(map m, sum before, sum next) {
	return (sum){
		m.a * before.s1 + m.b * before.s2 + next.s1,
		m.c * before.s1 + m.d * before.s2 + next.s2,
	};
}

// Each step needs the result of the one before, which leaves a processor idle most of the time. So add sums four parts
// of the data in parallel and joins their sums.
static inline sum add(sum s, const uint8_t *p, size_t length, int big) {
	size_t quarter = length / 8 / 4 * 8;
	if (quarter > 0) {
		sum b = {0, 0}, c = {0, 0}, d = {0, 0};
		for (size_t i = 0; i < quarter; i += 8) {
			step(&s, p + i, big);
			step(&b, p + quarter + i, big);
			step(&c, p + 2 * quarter + i, big);
			step(&d, p + 3 * quarter + i, big);
		}
		map m = steps(quarter / 8);
		s = joined(m, joined(m, joined(m, s, b), c), d);
	}
	for (size_t i = 4 * quarter; i < length; i += 8) {
		step(&s, p + i, big);
	}
	return s;
}

sum sum_add(sum start, const uint8_t *data, size_t length, int big) {
	return big ? add(start, data, length, 1) : add(start, data, length, 0);
}

// tail computes the checksum of a page, as the page stores it.
static void tail(const uint8_t *page, size_t length, uint8_t out[8]) {
	sum s = sum_add((sum){0, 0}, page, length - 8, 0);
	for (int i = 0; i < 4; i++) {
		out[i] = (uint8_t)(s.s1 >> (8 * i));
		out[4 + i] = (uint8_t)(s.s2 >> (8 * i));
	}
}

int page_valid(const uint8_t *page, size_t length) {
	uint8_t want[8];
	tail(page, length, want);
	return memcmp(page + length - 8, want, 8) == 0;
}

void page_sign(uint8_t *page, size_t length) { tail(page, length, page + length - 8); }
