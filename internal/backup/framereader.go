package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// frameReader reads a payload, and verifies every part before it returns it.
type frameReader struct {
	r      *bufio.Reader
	sum    hash.Hash
	header Header
	footer *Footer // nil until the end
	part   []byte
	left   []byte
}

func newFrameReader(from io.Reader) (*frameReader, error) {
	f := &frameReader{sum: sha256.New(), part: make([]byte, partBytes)}
	f.r = bufio.NewReaderSize(from, partBytes+8)
	start, err := f.readPart(len(magic))
	if err != nil {
		return nil, err
	}
	if string(start) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	line, err := f.line()
	if err != nil {
		return nil, err
	}
	_, _ = f.sum.Write(line)
	if err := json.Unmarshal(line, &f.header); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	if f.header.Format != format {
		return nil, ErrNewer
	}
	return f, nil
}

// readPart reads n bytes, at most a part, and adds them to the sum.
func (f *frameReader) readPart(n int) ([]byte, error) {
	p := f.part[:n]
	if _, err := io.ReadFull(f.r, p); err != nil {
		return nil, cutOff(err)
	}
	_, _ = f.sum.Write(p)
	return p, nil
}

// cutOff is the error of a file that ends too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return err
}

// line reads a line of JSON.
func (f *frameReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := f.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, cutOff(err)
		case len(line) > lineBytes:
			return nil, fmt.Errorf("%w: a line has no end", ErrDamaged)
		}
	}
}

// Read implements [io.Reader]. Its io.EOF means that the footer matches, too.
func (f *frameReader) Read(p []byte) (int, error) {
	for len(f.left) == 0 {
		if f.footer != nil {
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// next reads a part, or the footer.
func (f *frameReader) next() error {
	head, err := f.readPart(4)
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	switch {
	case size == 0:
		return f.end()
	case size > partBytes:
		return fmt.Errorf("%w: a part has the size %d", ErrDamaged, size)
	}
	if head, err = f.readPart(4); err != nil {
		return err
	}
	crc := binary.BigEndian.Uint32(head)
	part, err := f.readPart(int(size))
	if err != nil {
		return err
	}
	if crc32.Checksum(part, castagnoli) != crc {
		return fmt.Errorf("%w: a part does not match its checksum", ErrDamaged)
	}
	f.left = part
	return nil
}

func (f *frameReader) end() error {
	line, err := f.line()
	if err != nil {
		return err
	}
	footer, err := parseFooter(line)
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(footer.SHA256)
	if err != nil || !bytes.Equal(sum, f.sum.Sum(nil)) {
		return fmt.Errorf("%w: it does not match its checksum", ErrDamaged)
	}
	if _, err := f.r.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = fmt.Errorf("%w: something follows its end", ErrDamaged)
		}
		return err
	}
	f.footer = footer
	return nil
}
