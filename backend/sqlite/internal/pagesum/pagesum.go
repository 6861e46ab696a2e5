// Package pagesum verifies each page of a SQLite database whenever it is read.
//
// It registers a VFS with SQLite, [VFS], between SQLite and its files:
//
//   - A database whose header reserves [Reserved] bytes in each page has a checksum in them, in the format of SQLite's
//     extension cksumvfs. Each page gets its checksum when it is written to the database file, and must match it when
//     it is read. Other databases are read and written unchanged.
//
//   - A page of the write-ahead log is verified against SQLite's own sum of its frame, which SQLite verifies only when
//     it recovers a log. It gets a checksum when a checkpoint writes it to the database file.
//
//   - The frames of a transaction reach the log in large writes instead of two for each page.
//
//   - Pages of the database file that are read one after the other are read several at a time.
//
//   - A file that has replaced the one that this process has open cannot be opened beside it: SQLite would apply the
//     log of one to the other.
//
// A page that does not match fails the read with SQLITE_IOERR_DATA, which is [ErrCode].
//
// Two parameters of a database's URI control it: verify=0 reads without verification; summed=1 announces that a new
// file gets checksums, because SQLite may write other pages before the first one.
//
// Only this VFS writes checksums. Pages that another program writes, such as a sqlite3 shell without cksumvfs, do not
// match theirs, nor do those of the copies that it makes.
package pagesum

/*
#cgo CFLAGS: -std=gnu99 -O2
#cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
#include <stdlib.h>
#include "sum.h"
#include "vfs.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // contains SQLite
)

const (
	// VFS is the name of the VFS.
	VFS = "sqlstore"
	// Reserved is the size in bytes of the checksum at the end of each page.
	Reserved = 8
	// ErrCode is SQLite's extended error code for a page that does not match its checksum, SQLITE_IOERR_DATA.
	ErrCode = 10 | 32<<8
)

func init() {
	if err := C.pagesum_register(C.CString(VFS)); err != 0 { // SQLite keeps the name
		panic(fmt.Sprintf("register SQLite's VFS %s: error %d", VFS, int(err)))
	}
}

// Valid reports whether a page matches its checksum. Its length must be a power of two and at least 512.
func Valid(page []byte) bool {
	return C.page_valid((*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(page))), C.size_t(len(page))) != 0
}

// Sign puts the checksum into the last bytes of a page.
func Sign(page []byte) {
	C.page_sign((*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(page))), C.size_t(len(page)))
}

// Sum is SQLite's running sum over the frames of a write-ahead log.
type Sum [2]uint32

// Add returns the sum continued with data, whose length is a multiple of 8 bytes, as big-endian words if big is set.
func (s Sum) Add(data []byte, big bool) Sum {
	order := C.int(0)
	if big {
		order = 1
	}
	next := C.sum_add(C.sum{C.uint32_t(s[0]), C.uint32_t(s[1])}, (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))),
		C.size_t(len(data)), order)
	return Sum{uint32(next.s1), uint32(next.s2)}
}
