package sqlite

import (
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

const (
	walHeader   = 32 // bytes before the first frame of a WAL
	frameHeader = 24 // bytes before the page of each frame
)

// frame is a page in a WAL: https://sqlite.org/fileformat2.html#the_write_ahead_log.
type frame struct {
	number  int64 // from 1
	page    int64 // number of the page
	content []byte
	commits bool // it is the last one of a transaction
	// whole is set if the frame matches its sum, which continues that of the frame before, and was written since the
	// log last started again. SQLite takes the first frame that is not whole for the end of the log.
	whole bool
}

// eachFrame calls f with each frame in the file until f returns false. The content is only valid until then. whole is
// false if the header of the log does not match its own sum.
func eachFrame(log io.ReaderAt, f func(*frame) (more bool)) (whole bool, err error) {
	var header [walHeader]byte
	if _, err := log.ReadAt(header[:], 0); err != nil {
		return false, err
	}
	big := header[3]&1 == 1 // sums are of big-endian words
	sum := sumAt(header[24:])
	if (pagesum.Sum{}).Add(header[:24], big) != sum {
		return false, nil
	}
	raw := make([]byte, frameHeader+int64(binary.BigEndian.Uint32(header[8:])))
	for n := int64(1); ; n++ {
		if _, err := log.ReadAt(raw, walHeader+(n-1)*int64(len(raw))); err != nil {
			return true, ignoreEnd(err)
		}
		next := sumAt(raw[16:])
		more := f(&frame{
			number: n, page: int64(binary.BigEndian.Uint32(raw)), content: raw[frameHeader:],
			commits: binary.BigEndian.Uint32(raw[4:]) != 0,
			whole: string(raw[8:16]) == string(header[16:24]) &&
				sum.Add(raw[:8], big).Add(raw[frameHeader:], big) == next,
		})
		if !more {
			return true, nil
		}
		sum = next
	}
}

func sumAt(b []byte) pagesum.Sum {
	return pagesum.Sum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// pageInLog reports whether the WAL at path, if there is one, has the page.
func pageInLog(path string, number int64) (found bool, err error) {
	log, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = eachFrame(log, func(f *frame) bool {
		found = f.whole && f.page == number
		return !found
	})
	return found, errors.Join(ignoreEnd(err), log.Close())
}

// clockRow is what the row of the clock says about a state of the file. The zero value stands for none.
type clockRow struct{ revision, commit, previous int64 }

const (
	tableLeaf = 0x0d // the first byte of a page that has rows of a table
	// clockColumns is how many columns the clock has. No other table has one small row of as many.
	clockColumns = 6
)

// clockInPage returns the row of the clock if the page is the one that holds it.
func clockInPage(page []byte) (row clockRow, ok bool) {
	if len(page) < 10 || page[0] != tableLeaf || binary.BigEndian.Uint16(page[3:]) != 1 {
		return row, false
	}
	// The cell has, each as a varint of one byte, the length of the row, its id, the length of the list of the columns'
	// types, and those types. The columns follow; the id takes no bytes.
	at := int(binary.BigEndian.Uint16(page[8:]))
	const types = 3
	data := at + types + clockColumns
	if data > len(page) || page[at+1] != 1 || page[at+2] != 1+clockColumns || page[at+types] != 0 {
		return row, false
	}
	var columns [clockColumns]int64
	for i, kind := range page[at+types : data] {
		var valid bool
		if columns[i], data, valid = integerAt(page, data, kind); !valid {
			return row, false
		}
	}
	return clockRow{revision: columns[1], commit: columns[4], previous: columns[5]}, true
}

// integerAt returns the integer of that type at an offset in the page, and the offset behind it.
func integerAt(page []byte, at int, kind byte) (n int64, next int, ok bool) {
	const zero, one = 8, 9 // types that are values
	switch kind {
	case 0, zero:
		return 0, at, true
	case one:
		return 1, at, true
	}
	width, known := map[byte]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}[kind]
	if !known || at+width > len(page) {
		return 0, at, false
	}
	n = int64(int8(page[at]))
	for _, digit := range page[at+1 : at+width] {
		n = n<<8 | int64(digit)
	}
	return n, at + width, true
}
