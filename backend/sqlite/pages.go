package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

const (
	pageSizeAt = 16      // offset of the page size in a database's header, 2 bytes, where 1 stands for 64 KiB
	reservedAt = 20      // offset of the number of bytes that are reserved in each page
	scanChunk  = 1 << 20 // bytes to read at a time

	scanLogPeriod = 10 * time.Second // between two log messages on progress
	// rereads is how often a page is read again: a server may be writing it.
	rereads = 100
)

// adoptPages verifies all rows and the structure of a file that another program has written, and then adds checksums to
// the pages that lack them.
func (b *Backend) adoptPages(ctx context.Context) error {
	size, err := summedPages(b.file)
	if err != nil || size == 0 {
		return err
	}
	began := time.Now()
	b.log.Info("verifying the pages of the database, which another program has copied or written to", "path", b.path)
	bad, err := b.scanPages(ctx, size)
	if err != nil || len(bad) == 0 {
		return err
	}
	b.log.Warn("pages do not match their checksums; verifying all rows and indexes before they get new ones",
		"path", b.path, "pages", len(bad))
	if err := b.inspectFile(ctx); err != nil {
		return err
	}
	if err := signPages(b.file, bad, size); err != nil {
		return fmt.Errorf("add checksums to pages: %w", err)
	}
	b.log.Info("pages have new checksums", "path", b.path, "pages", len(bad), "took", time.Since(began))
	return nil
}

// scanPages returns the numbers of the pages that do not match their checksums.
func (b *Backend) scanPages(ctx context.Context, size int64) (bad []int64, err error) {
	logged := time.Now()
	err = eachPage(ctx, b.file, size, func(number int64, page []byte, done float64) error {
		if !pagesum.Valid(page) {
			bad = append(bad, number)
		}
		if time.Since(logged) > scanLogPeriod {
			logged = time.Now()
			b.log.Info("verifying pages", "path", b.path, "percent", int(100*done))
		}
		return nil
	})
	return bad, err
}

// inspectFile verifies the contents of the file regardless of the checksums of pages. It accepts corrupt rows, which
// their own checksums keep from being served, but no other damage.
func (b *Backend) inspectFile(ctx context.Context) error {
	c, err := open(dsn(b.path, readOnly+unverified), "query_only = 1")
	if err != nil {
		return err
	}
	v := &View{c: c, path: b.path}
	rows, structure := &backend.Inspection{}, &backend.Inspection{}
	if err = v.integrity(ctx, structure); err == nil {
		err = v.inspectRows(ctx, rows)
	}
	switch err = errors.Join(err, c.close()); {
	case err != nil:
		return err
	case structure.Found > 0:
		return fmt.Errorf("%w: %s (problems: %d)", ErrCorrupt, structure.Problems[0], structure.Found)
	case rows.Found > 0:
		b.log.Error("rows of the database are damaged, and are not served; list them with 'sqlstore check', then "+
			"restore a backup, or write or delete their keys", "path", b.path, "problems", rows.Found, "first",
			rows.Problems[0])
	}
	return nil
}

// summedPages returns the page size in bytes, 0 if the pages of the file have no checksums.
func summedPages(file io.ReaderAt) (int64, error) {
	var header [100]byte
	if _, err := file.ReadAt(header[:], 0); errors.Is(err, io.EOF) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	size := pageSizeIn(header[:])
	if header[reservedAt] != pagesum.Reserved || size < 512 || size&(size-1) != 0 {
		return 0, nil
	}
	return size, nil
}

// pageSizeIn returns the page size that a database's header states.
func pageSizeIn(header []byte) int64 {
	size := int64(binary.BigEndian.Uint16(header[pageSizeAt:]))
	if size == 1 {
		size = 1 << 16
	}
	return size
}

// eachPage calls f with the number of each page, its content, and the fraction of the file that was read before.
func eachPage(
	ctx context.Context, file *pagesum.File, size int64, f func(number int64, page []byte, done float64) error,
) error {
	total, _, err := file.Stat()
	if err != nil {
		return err
	}
	chunk := make([]byte, max(scanChunk, size))
	for at := int64(0); ctx.Err() == nil; {
		n, err := file.ReadAt(chunk, at)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		for i := int64(0); i+size <= int64(n); i += size {
			if err := f((at+i)/size+1, chunk[i:i+size], float64(at)/float64(total)); err != nil {
				return err
			}
		}
		if at += int64(n); end {
			return nil
		}
	}
	return ctx.Err()
}

// signPages writes the checksums of some pages of the file. No connection may write to it meanwhile.
func signPages(file *pagesum.File, numbers []int64, size int64) error {
	page := make([]byte, size)
	for _, n := range numbers {
		if _, err := file.ReadAt(page, (n-1)*size); err != nil {
			return err
		}
		pagesum.Sign(page)
		if _, err := file.WriteAt(page[size-pagesum.Reserved:], n*size-pagesum.Reserved); err != nil {
			return err
		}
	}
	return file.Sync()
}
