#include "pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite.h"

#define FIRST_ARGUMENT 3 // of the statement

typedef struct {
	uint8_t *data;
	size_t length, capacity;
} buffer;

// room makes room for n bytes, and reports whether there was memory for them.
static int room(buffer *b, size_t n) {
	if (b->capacity - b->length < n) {
		size_t capacity = 2 * b->capacity + n + 65536;
		uint8_t *grown = realloc(b->data, capacity);
		if (!grown) {
			return 0;
		}
		b->data = grown;
		b->capacity = capacity;
	}
	return 1;
}

#define NUMBER (1 + 8) // bytes that a number takes at most

// add_number appends a number: the count of its bytes, and these, the lowest first. There must be room for all 8.
static void add_number(buffer *b, uint64_t n) {
	int count = n ? 8 - __builtin_clzll(n) / 8 : 0;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	n = __builtin_bswap64(n);
#endif
	b->data[b->length] = (uint8_t)count;
	memcpy(b->data + b->length + 1, &n, sizeof n);
	b->length += 1 + count;
}

static int add_value(buffer *b, sqlite3_value *v) {
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		if (!room(b, NUMBER)) {
			return 0;
		}
		add_number(b, sqlite3_value_int64(v));
		return 1;
	case SQLITE_BLOB: {
		const void *data = sqlite3_value_blob(v);
		size_t n = sqlite3_value_bytes(v);
		if (!room(b, 1 + NUMBER + n)) {
			return 0;
		}
		b->data[b->length++] = 'b';
		add_number(b, n);
		if (n) {
			memcpy(b->data + b->length, data, n);
		}
		b->length += n;
		return 1;
	}
	}
	if (!room(b, 1)) {
		return 0;
	}
	b->data[b->length++] = 'n';
	return 1;
}

// run packs the rows of a statement, up to a number of them, or to the one with which they reach a number of bytes.
static int run(sqlite3_stmt *s, buffer *b, int64_t rows, int64_t bytes) {
	int columns = sqlite3_column_count(s), result;
	while ((result = sqlite3_step(s)) == SQLITE_ROW) {
		for (int i = 0; i < columns; i++) {
			if (!add_value(b, sqlite3_column_value(s, i))) {
				return SQLITE_NOMEM;
			}
		}
		if (--rows <= 0 || (int64_t)b->length >= bytes) {
			break;
		}
	}
	if (result != SQLITE_ROW && result != SQLITE_DONE) {
		return result;
	}
	if (!room(b, 1)) {
		return SQLITE_NOMEM;
	}
	b->data[b->length++] = result == SQLITE_DONE ? 'e' : 'm';
	return SQLITE_OK;
}

static void pack(sqlite3_context *ctx, int n, sqlite3_value **values) {
	sqlite3 *db = sqlite3_context_db_handle(ctx);
	sqlite3_stmt *s = 0;
	buffer b = {0};
	int err = n < FIRST_ARGUMENT
	                  ? SQLITE_MISUSE
	                  : sqlite3_prepare_v2(db, (const char *)sqlite3_value_text(values[0]), -1, &s, 0);
	for (int i = FIRST_ARGUMENT; i < n && err == SQLITE_OK; i++) {
		err = sqlite3_bind_value(s, i - FIRST_ARGUMENT + 1, values[i]);
	}
	if (err == SQLITE_OK) {
		err = run(s, &b, sqlite3_value_int64(values[1]), sqlite3_value_int64(values[2]));
	}
	if (err != SQLITE_OK && (sqlite3_extended_errcode(db) & 0xff) == err) {
		err = sqlite3_extended_errcode(db);
	}
	sqlite3_finalize(s);
	if (err == SQLITE_OK) {
		sqlite3_result_blob64(ctx, b.data, b.length, free);
		return;
	}
	free(b.data);
	sqlite3_result_error_code(ctx, err);
}

static int load(sqlite3 *db, const char **message, const void *api) {
	(void)message;
	(void)api;
	return sqlite3_create_function_v2(db, "sqlstore_pack", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, 0, pack, 0, 0, 0);
}

int pack_register(void) { return sqlite3_auto_extension((void (*)(void))load); }
