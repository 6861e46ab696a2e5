#include "pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The part of SQLite's interface that an aggregate function needs: https://sqlite.org/c3ref/create_function.html. The
// driver's package defines it. It is weak because cgo also links this package alone, where it stays undefined.
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_context sqlite3_context;
typedef struct sqlite3_value sqlite3_value;
typedef void (*call)(sqlite3_context *, int, sqlite3_value **);

#define SQLITE_UTF8 1
#define SQLITE_INTEGER 1
#define SQLITE_BLOB 4

#ifdef __APPLE__
#define FROM_DRIVER extern
#else
#define FROM_DRIVER extern __attribute__((weak))
#endif
FROM_DRIVER int sqlite3_auto_extension(void (*)(void));
FROM_DRIVER int sqlite3_create_function_v2(sqlite3 *, const char *, int, int, void *, call, call,
					   void (*)(sqlite3_context *), void (*)(void *));
FROM_DRIVER void *sqlite3_aggregate_context(sqlite3_context *, int);
FROM_DRIVER void sqlite3_result_blob64(sqlite3_context *, const void *, uint64_t, void (*)(void *));
FROM_DRIVER void sqlite3_result_error_nomem(sqlite3_context *);
FROM_DRIVER int sqlite3_value_type(sqlite3_value *);
FROM_DRIVER long long sqlite3_value_int64(sqlite3_value *);
FROM_DRIVER const void *sqlite3_value_blob(sqlite3_value *);
FROM_DRIVER int sqlite3_value_bytes(sqlite3_value *);

typedef struct {
	uint8_t *data;
	size_t length, capacity;
	int full;
} buffer;

// add appends a tag and bytes, and reports whether there was memory for them.
static int add(buffer *b, char tag, const void *data, size_t n) {
	if (b->capacity - b->length < n + 1) {
		size_t capacity = 2 * b->capacity + n + 4096;
		uint8_t *grown = realloc(b->data, capacity);
		if (!grown) {
			return 0;
		}
		b->data = grown;
		b->capacity = capacity;
	}
	b->data[b->length] = tag;
	if (n) {
		memcpy(b->data + b->length + 1, data, n);
	}
	b->length += n + 1;
	return 1;
}

static int add_value(buffer *b, sqlite3_value *v) {
	int64_t n;
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		n = sqlite3_value_int64(v);
		return add(b, 'i', &n, sizeof n);
	case SQLITE_BLOB: {
		const void *data = sqlite3_value_blob(v);
		n = sqlite3_value_bytes(v);
		return add(b, 'l', &n, sizeof n) && add(b, 'b', data, n);
	}
	}
	return add(b, 'n', 0, 0);
}

static void step(sqlite3_context *ctx, int n, sqlite3_value **values) {
	buffer *b = sqlite3_aggregate_context(ctx, sizeof *b);
	if (!b) {
		sqlite3_result_error_nomem(ctx);
		return;
	}
	if (b->full) {
		return;
	}
	for (int i = 1; i < n; i++) {
		if (!add_value(b, values[i])) {
			b->full = 1;
			sqlite3_result_error_nomem(ctx);
			return;
		}
	}
	b->full = b->length >= (size_t)sqlite3_value_int64(values[0]);
}

static void final(sqlite3_context *ctx) {
	buffer *b = sqlite3_aggregate_context(ctx, 0);
	if (b && b->data) {
		sqlite3_result_blob64(ctx, b->data, b->length, free);
	}
}

static int load(sqlite3 *db, const char **message, const void *api) {
	(void)message;
	(void)api;
	return sqlite3_create_function_v2(db, "sqlstore_pack", -1, SQLITE_UTF8, 0, 0, step, final, 0);
}

int pack_register(void) { return sqlite3_auto_extension((void (*)(void))load); }
