package bitrot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// file is one of the files in which bits flip.
type file struct {
	path string // in the directory of the database
	name string // for the report
	// paged is set if it consists of Postgres' pages.
	paged bool
	// objects is set if it belongs to the table of objects.
	objects bool
	// table is set for the file of a table, whose pages have headers of rows.
	table bool
}

// flip is one bit to flip.
type flip struct {
	file   *file
	offset int64
	bit    int
	where  string // for the report
	// structure is set for what describes the rows in a page of a table, which no checksum covers.
	structure bool
	// unused is set in the free space of a page.
	unused bool
}

func (f *flip) String() string {
	return fmt.Sprintf("bit %d of byte %d of %s (%s)", f.bit, f.offset, f.file.path, f.where)
}

// choose draws n bits of the files in dir.
func choose(rng *rand.Rand, dir string, files []*file, n int) ([]*flip, error) {
	var sizes []int64
	var total int64
	var tables []int
	for i, f := range files {
		info, err := os.Stat(filepath.Join(dir, f.path))
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, info.Size())
		total += info.Size()
		if f.table && info.Size() > 0 {
			tables = append(tables, i)
		}
	}
	var flips []*flip
	for len(flips) < n {
		var at *flip
		var err error
		switch kind := rng.IntN(6); {
		case kind < 2: // any byte
			offset := rng.Int64N(total)
			i := 0
			for ; offset >= sizes[i]; i++ {
				offset -= sizes[i]
			}
			at = &flip{file: files[i], offset: offset}
		case kind < 5 || len(tables) == 0: // any file, mostly of the table of objects
			i := rng.IntN(len(files))
			if sizes[i] == 0 || kind < 4 && !files[i].objects {
				continue
			}
			at = &flip{file: files[i], offset: rng.Int64N(sizes[i])}
		default:
			i := tables[rng.IntN(len(tables))]
			if rng.IntN(4) > 0 && !files[i].objects {
				continue
			}
			if at, err = structural(rng, dir, files[i], sizes[i]); err != nil {
				return nil, err
			}
		}
		at.bit = rng.IntN(8)
		if err := at.describe(dir); err != nil {
			return nil, err
		}
		if !at.unused {
			flips = append(flips, at)
		}
	}
	return flips, nil
}

// apply flips the bits.
func apply(dir string, flips []*flip) error {
	for _, f := range flips {
		if err := f.apply(dir); err != nil {
			return err
		}
	}
	return nil
}

func (f *flip) apply(dir string) (err error) {
	open, err := os.OpenFile(filepath.Join(dir, f.file.path), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() {
		if e := open.Close(); err == nil {
			err = e
		}
	}()
	var b [1]byte
	if _, err := open.ReadAt(b[:], f.offset); err != nil {
		return err
	}
	b[0] ^= 1 << f.bit
	_, err = open.WriteAt(b[:], f.offset)
	return err
}

// The layout of a page of Postgres.
const (
	page        = 8192
	pageHeader  = 24
	pointerSize = 4
	tupleHeader = 23
	entryHeader = 8
)

// parsed is the layout of a page.
type parsed struct {
	lower, upper, special int64
	tuples                [][2]int64 // offset and length
	leaf                  bool       // of an index
}

func parse(path string, at int64) (*parsed, error) {
	open, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	raw := make([]byte, page)
	if _, err := open.ReadAt(raw, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint16(raw[i:])) }
	p := &parsed{lower: word(12), upper: word(14), special: word(16)}
	const flags, leaf = 12, 1
	p.leaf = p.special+flags < page && word(int(p.special)+flags)&leaf != 0
	for i := int64(pageHeader); i+pointerSize <= min(p.lower, page); i += pointerSize {
		pointer := int64(binary.LittleEndian.Uint32(raw[i:]))
		const normal = 1
		if pointer>>15&3 == normal {
			p.tuples = append(p.tuples, [2]int64{pointer & 0x7fff, pointer >> 17})
		}
	}
	return p, nil
}

// structural draws a byte of what describes the rows in a page of a table.
func structural(rng *rand.Rand, dir string, f *file, size int64) (*flip, error) {
	at := rng.Int64N(size/page) * page
	p, err := parse(filepath.Join(dir, f.path), at)
	if err != nil {
		return nil, err
	}
	if len(p.tuples) == 0 || rng.IntN(4) == 0 {
		return &flip{file: f, offset: at + rng.Int64N(max(p.lower, pageHeader))}, nil
	}
	tuple := p.tuples[rng.IntN(len(p.tuples))]
	return &flip{file: f, offset: at + tuple[0] + rng.Int64N(tupleHeader)}, nil
}

// describe sets where, structure and unused.
func (f *flip) describe(dir string) error {
	f.where = f.file.name
	if !f.file.paged {
		return nil
	}
	p, err := parse(filepath.Join(dir, f.file.path), f.offset/page*page)
	if err != nil {
		return err
	}
	header := int64(entryHeader)
	if f.file.table {
		header = tupleHeader
	}
	part, at := "unused", f.offset%page
	switch {
	case at < pageHeader:
		part, f.structure = "page header", f.file.table
	case at < p.lower:
		part, f.structure = "line pointers", f.file.table
	case at >= p.special && p.special > 0:
		part = "end of page"
	default:
		for _, t := range p.tuples {
			switch {
			case at < t[0] || at >= t[0]+t[1]:
			case at < t[0]+header:
				part, f.structure = "tuple header", f.file.table
			default:
				part = "tuple"
			}
		}
	}
	f.where, f.unused = f.where+", "+part, part == "unused"
	return nil
}
