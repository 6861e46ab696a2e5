// The write buffer of a log. SQLite writes the header and the page of each frame separately. Here the frames that follow
// each other reach the file in a few large writes.
//
// Only whole frames without a commit mark are buffered, and the header of a frame with one writes them all to the file.
// So what is buffered belongs to a transaction that has not committed. Only its own connection reads it, after a flush.
// What is left when the connection releases the write lock was rolled back. It is discarded then, because the next
// transaction, which may be that of another connection, writes to the same place. A connection in exclusive locking mode
// has no such lock, and its writes are not buffered.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

// The underlying VFS splits larger writes than 128 KiB. More than this saves little.
#define CAPACITY 65536

// ends_before reports whether the log is shorter than the offset. It asks a descriptor of its own for the end: after
// fstat, which xFileSize uses, the kernel has to note a finer time of the next write. SQLite has no locks on a log that
// the descriptor's close could drop.
static int ends_before(file *log, sqlite3_int64 at) {
	if (log->end == 0) {
		int fd = open(log->path, O_RDONLY | O_CLOEXEC);
		log->end = fd < 0 ? -1 : fd + 1;
	}
	off_t end = log->end > 0 ? lseek(log->end - 1, 0, SEEK_END) : -1;
	return end >= 0 && end < at;
}

// A log has no gaps. One that is shorter was cut off by another program, and what is written behind the gap would make
// it look whole.
int log_store(file *log, const void *data, int amount, sqlite3_int64 at) {
	if (at && ends_before(log, at)) {
		return SQLITE_IOERR_DATA;
	}
	return below(&log->base)->pMethods->xWrite(below(&log->base), data, amount, at);
}

int log_flush(file *log) {
	if (!log->buffered) {
		return SQLITE_OK;
	}
	int err = log_store(log, log->buffer, log->buffered, log->buffer_at);
	if (err == SQLITE_OK) { // otherwise the commit fails too
		log->buffered = 0;
	}
	return err;
}

int log_follows(const file *log, sqlite3_int64 at) { return log->buffered && at == log->buffer_at + log->buffered; }

void log_discard(file *log) { log->buffered = 0; }

// fits makes the buffer ready for data at the offset.
static int fits(file *log, int amount, sqlite3_int64 at, int *err) {
	*err = SQLITE_OK;
	if (log->buffered && (!log_follows(log, at) || amount > CAPACITY - log->buffered)) {
		*err = log_flush(log);
	}
	if (!log->buffer) {
		log->buffer = malloc(CAPACITY);
	}
	return *err == SQLITE_OK && log->buffer && amount <= CAPACITY;
}

int log_append(file *log, const void *data, int amount, sqlite3_int64 at) {
	int err;
	if (!fits(log, amount, at, &err)) {
		return err != SQLITE_OK ? err : log_store(log, data, amount, at);
	}
	if (!log->buffered) {
		log->buffer_at = at;
	}
	memcpy(log->buffer + log->buffered, data, amount);
	log->buffered += amount;
	return SQLITE_OK;
}

int log_commit(file *log, const void *header, int amount, sqlite3_int64 at) {
	int err = log_append(log, header, amount, at);
	if (err == SQLITE_OK && (err = log_flush(log)) != SQLITE_OK) {
		log->buffered -= amount;
	}
	return err;
}
