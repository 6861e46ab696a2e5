// Package pack returns many rows of SQLite in one value: a call into C for each row and column would cost more than
// SQLite's own work.
//
// It adds an aggregate function to SQLite, sqlstore_pack(bytes, ...), that appends the integers, blobs and NULLs of the
// rows, in the order in which they come, to one blob, which [Reader] reads. All other values become NULL. It leaves out
// all rows after the one with which the blob reaches that many bytes.
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

// Reader reads the values of the rows one after the other.
type Reader struct {
	left []byte
	err  error
}

// NewReader returns a reader of the function's value. The blobs that it returns are parts of it.
func NewReader(packed []byte) *Reader { return &Reader{left: packed} }

// More reports whether there is another value, and no error.
func (r *Reader) More() bool { return len(r.left) > 0 }

// Err returns an error if the value is not one of the function.
func (r *Reader) Err() error { return r.err }

// Int returns the next value, 0 if it is no integer, and whether it is one.
func (r *Reader) Int() (n int64, ok bool) {
	if r.tag() == 'i' {
		return r.number(), true
	}
	r.skip()
	return 0, false
}

// Blob returns the next value, nil if it is no blob.
func (r *Reader) Blob() []byte {
	if r.tag() != 'l' {
		r.skip()
		return nil
	}
	n := r.number()
	if r.tag() != 'b' || n < 0 || n >= int64(len(r.left)) {
		r.fail()
		return nil
	}
	b := r.left[1 : 1+n : 1+n]
	r.left = r.left[1+n:]
	return b
}

func (r *Reader) tag() byte {
	if len(r.left) == 0 {
		r.fail()
		return 0
	}
	return r.left[0]
}

// number reads a tag and a number.
func (r *Reader) number() int64 {
	const size = 1 + 8
	if len(r.left) < size {
		r.fail()
		return 0
	}
	n := int64(binary.NativeEndian.Uint64(r.left[1:]))
	r.left = r.left[size:]
	return n
}

// skip skips the next value.
func (r *Reader) skip() {
	switch r.tag() {
	case 'n':
		r.left = r.left[1:]
	case 'i':
		r.number()
	case 'l':
		r.Blob()
	default:
		r.fail()
	}
}

func (r *Reader) fail() { r.left, r.err = nil, errFormat }
