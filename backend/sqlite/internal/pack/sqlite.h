// The part of SQLite's interface that a function needs which runs a statement: https://sqlite.org/c3ref/intro.html.
// SQLite promises not to change it within version 3.
#ifndef PACK_SQLITE_H
#define PACK_SQLITE_H

#include <stdint.h>

#define SQLITE_OK 0
#define SQLITE_NOMEM 7
#define SQLITE_MISUSE 21
#define SQLITE_ROW 100
#define SQLITE_DONE 101

#define SQLITE_INTEGER 1
#define SQLITE_BLOB 4

#define SQLITE_UTF8 1
#define SQLITE_DIRECTONLY 0x80000

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_context sqlite3_context;
typedef struct sqlite3_value sqlite3_value;
typedef void (*call)(sqlite3_context *, int, sqlite3_value **);

// The driver's package defines these. They are weak because cgo also links this package alone, where they stay
// undefined.
#ifdef __APPLE__
#define FROM_DRIVER extern
#else
#define FROM_DRIVER extern __attribute__((weak))
#endif
FROM_DRIVER int sqlite3_auto_extension(void (*)(void));
FROM_DRIVER int sqlite3_create_function_v2(sqlite3 *, const char *, int, int, void *, call, call,
					   void (*)(sqlite3_context *), void (*)(void *));
FROM_DRIVER sqlite3 *sqlite3_context_db_handle(sqlite3_context *);
FROM_DRIVER void sqlite3_result_blob64(sqlite3_context *, const void *, uint64_t, void (*)(void *));
FROM_DRIVER void sqlite3_result_error_code(sqlite3_context *, int);
FROM_DRIVER const unsigned char *sqlite3_value_text(sqlite3_value *);
FROM_DRIVER int sqlite3_value_type(sqlite3_value *);
FROM_DRIVER long long sqlite3_value_int64(sqlite3_value *);
FROM_DRIVER const void *sqlite3_value_blob(sqlite3_value *);
FROM_DRIVER int sqlite3_value_bytes(sqlite3_value *);
FROM_DRIVER int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
FROM_DRIVER int sqlite3_bind_value(sqlite3_stmt *, int, const sqlite3_value *);
FROM_DRIVER int sqlite3_step(sqlite3_stmt *);
FROM_DRIVER int sqlite3_extended_errcode(sqlite3 *);
FROM_DRIVER int sqlite3_finalize(sqlite3_stmt *);
FROM_DRIVER int sqlite3_column_count(sqlite3_stmt *);
FROM_DRIVER sqlite3_value *sqlite3_column_value(sqlite3_stmt *, int);

#endif
