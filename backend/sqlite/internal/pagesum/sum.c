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

// Each step needs the result of the one before, which leaves a processor idle most of the time. But the sum is linear:
// after n words it is the sum of their products with Fibonacci numbers, the greatest for the first word. Those of a
// block are computed in parallel.
enum { BLOCK = 1024, LANES = 8 }; // words

static uint32_t fibonacci[BLOCK + 2]; // from F(BLOCK + 1) down to F(0), modulo 2^32

__attribute__((constructor)) static void fill(void) {
	fibonacci[BLOCK] = 1;
	for (int i = BLOCK - 1; i >= 0; i--) {
		fibonacci[i] = fibonacci[i + 1] + fibonacci[i + 2];
	}
}

typedef uint32_t lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// block returns s continued with n words in the byte order of this machine. n is a multiple of LANES, at most BLOCK.
static inline __attribute__((always_inline)) sum block(sum s, const uint8_t *p, size_t n) {
	const uint32_t *f = fibonacci + BLOCK - n;
	lanes a = {0}, b = {0};
	for (size_t i = 0; i < n; i += LANES) {
		lanes words;
		memcpy(&words, p + 4 * i, sizeof words);
		a += words * *(const lanes *)(f + i + 2);
		b += words * *(const lanes *)(f + i + 1);
	}
	sum next = {f[2] * s.s1 + f[1] * s.s2, f[1] * s.s1 + f[0] * s.s2};
	for (int i = 0; i < LANES; i++) {
		next.s1 += a[i];
		next.s2 += b[i];
	}
	return next;
}

static sum portable(sum s, const uint8_t *p, size_t n) { return block(s, p, n); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static sum avx2(sum s, const uint8_t *p, size_t n) { return block(s, p, n); }

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
#define avx2 portable

static int has_avx2(void) { return 0; }
#endif

sum sum_add(sum s, const uint8_t *data, size_t length, int big) {
	const uint8_t *end = data + length;
	if (big == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
		sum (*add)(sum, const uint8_t *, size_t) = has_avx2() ? avx2 : portable;
		while (end - data >= 4 * LANES) {
			size_t n = end - data >= 4 * BLOCK ? BLOCK : (end - data) / (4 * LANES) * LANES;
			s = add(s, data, n);
			data += 4 * n;
		}
	}
	for (; data < end; data += 8) {
		step(&s, data, big);
	}
	return s;
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
