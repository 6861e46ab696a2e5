// Package pack returns many rows of SQLite in one value: a call into C for each row and column would cost more than
// SQLite's own work.
//
// It adds a function to SQLite, sqlstore_pack(statement, rows, bytes, ...), that runs a statement with the further
// arguments and appends the integers, blobs and NULLs of its rows to one blob, which [Reader] reads. All other values
// become NULL. It ends with that number of rows, or with the row with which the blob reaches that number of bytes.
package pack

/*
#cgo CFLAGS: -std=gnu99 -O2
#cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
#include "pack.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"

	_ "github.com/mattn/go-sqlite3" // contains SQLite
)

func init() {
	if err := C.pack_register(); err != 0 {
		panic(fmt.Sprintf("register SQLite's function sqlstore_pack: error %d", int(err)))
	}
}

var errFormat = errors.New("not a value of sqlstore_pack")

// size is the number of bytes of an integer.
const size = 8

// Reader reads the values of the rows one after the other.
type Reader struct {
	left []byte
	err  error
}

// NewReader returns a reader of the function's value. The blobs that it returns are parts of it.
func NewReader(packed []byte) *Reader { return &Reader{left: packed} }

// More reports whether there is another value, and no error.
func (r *Reader) More() bool { return len(r.left) > 1 }

// Ended reports, after the last value, whether the statement has no more rows.
func (r *Reader) Ended() bool { return r.tag() == 'e' }

// Err returns an error if the value is not one of the function.
func (r *Reader) Err() error { return r.err }

// Int returns the next value, 0 if it is no integer, and whether it is one.
func (r *Reader) Int() (n int64, ok bool) {
	if len(r.left) > size {
		if count := r.left[0]; count <= size { // as number does, but faster
			n = int64(binary.LittleEndian.Uint64(r.left[1:]) & (1<<(8*count) - 1))
			r.left = r.left[1+count:]
			return n, true
		}
	}
	if r.tag() <= size {
		return r.number(), r.err == nil
	}
	r.skip()
	return 0, false
}

// Blob returns the next value, nil if it is no blob.
func (r *Reader) Blob() []byte {
	if r.tag() != 'b' {
		r.skip()
		return nil
	}
	r.left = r.left[1:]
	n := r.number()
	if n < 0 || n > int64(len(r.left)) {
		r.fail()
		return nil
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *Reader) tag() byte {
	if len(r.left) == 0 {
		r.fail()
		return 0
	}
	return r.left[0]
}

// number reads a number: the count of its bytes, and these, the lowest first.
func (r *Reader) number() int64 {
	count := int(r.tag())
	if count > size || count >= len(r.left) {
		r.fail()
		return 0
	}
	var n uint64
	for i := count; i > 0; i-- {
		n = n<<8 | uint64(r.left[i])
	}
	r.left = r.left[1+count:]
	return int64(n)
}

// skip skips the next value.
func (r *Reader) skip() {
	switch tag := r.tag(); {
	case tag == 'n' && len(r.left) > 1:
		r.left = r.left[1:]
	case tag <= size:
		r.number()
	case tag == 'b':
		r.Blob()
	default:
		r.fail()
	}
}

func (r *Reader) fail() { r.left, r.err = nil, errFormat }
