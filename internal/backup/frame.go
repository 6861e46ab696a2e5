package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"
)

// A file is a header and a footer, readable by everyone, with the payload in between:
//
//	"sqlstore backup\n", the header as a line of JSON,
//	parts of the payload, each with its length and its CRC-32C, 4 bytes most significant first, and a length of 0,
//	the footer as a line of JSON, with the SHA-256 of everything before it, and the CRC-32C of the JSON in
//	hexadecimal.
//
// The payload is compressed with zstd and then, if there are recipients, encrypted with age.

const (
	magic = "sqlstore backup\n"
	// partBytes is the size of a part; the last one is smaller.
	partBytes = 64 << 10
	// lineBytes bounds the header and the footer.
	lineBytes = 64 << 10
	format    = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says what a file covers.
type Header struct {
	Format int `json:"format"`
	// Version is that of the sqlstore which wrote the file.
	Version   string `json:"version"`
	ClusterID string `json:"clusterID"` // hexadecimal
	// Epoch, Revision and Compacted are the clock that the file was written at. After is as in [Name].
	Epoch     int64 `json:"epoch"`
	After     int64 `json:"after"`
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// At is as in [Name].
	At time.Time `json:"at"`
}

// Footer ends a file.
type Footer struct {
	Rows int64 `json:"rows"`
	// Bytes counts keys and values.
	Bytes int64 `json:"bytes"`
	// Tail identifies the rows of the header's revision, 0 if there are none.
	Tail uint64 `json:"tail"`
	// SHA256 is of everything before the footer, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// frameWriter writes the parts of a payload.
type frameWriter struct {
	w    *bufio.Writer
	sum  hash.Hash
	part []byte
}

func newFrameWriter(to io.Writer, h *Header) (*frameWriter, error) {
	f := &frameWriter{sum: sha256.New(), part: make([]byte, 0, partBytes)}
	f.w = bufio.NewWriterSize(io.MultiWriter(to, f.sum), partBytes+8)
	line, err := json.Marshal(h)
	if err == nil {
		_, err = f.w.WriteString(magic)
	}
	if err == nil {
		_, err = f.w.Write(append(line, '\n'))
	}
	return f, err
}

// Write implements [io.Writer].
func (f *frameWriter) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		took := min(len(p), partBytes-len(f.part))
		f.part = append(f.part, p[:took]...)
		p = p[took:]
		if len(f.part) == partBytes {
			if err := f.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (f *frameWriter) flush() error {
	if len(f.part) == 0 {
		return nil
	}
	var head [8]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(f.part)))
	binary.BigEndian.PutUint32(head[4:], crc32.Checksum(f.part, castagnoli))
	if _, err := f.w.Write(head[:]); err != nil {
		return err
	}
	_, err := f.w.Write(f.part)
	f.part = f.part[:0]
	return err
}

// end writes the footer.
func (f *frameWriter) end(footer Footer) error {
	if err := f.flush(); err != nil {
		return err
	}
	if _, err := f.w.Write(make([]byte, 4)); err != nil {
		return err
	}
	if err := f.w.Flush(); err != nil { // the sum is complete only then
		return err
	}
	footer.SHA256 = hex.EncodeToString(f.sum.Sum(nil))
	line, err := json.Marshal(&footer)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f.w, "%s %08x\n", line, crc32.Checksum(line, castagnoli)); err != nil {
		return err
	}
	return f.w.Flush()
}

// parseFooter reads the last line of a file.
func parseFooter(line []byte) (*Footer, error) {
	const end = len(" 01234567\n")
	footer := &Footer{}
	at := len(line) - end
	if at < 0 || string(line[at:]) != fmt.Sprintf(" %08x\n", crc32.Checksum(line[:at], castagnoli)) {
		return nil, fmt.Errorf("%w: its footer does not match its checksum", ErrDamaged)
	}
	if err := json.Unmarshal(line[:at], footer); err != nil {
		return nil, fmt.Errorf("%w: its footer: %w", ErrDamaged, err)
	}
	return footer, nil
}
