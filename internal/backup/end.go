package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// endBytes is enough for a header, and for a footer.
const endBytes = 4 << 10

// end returns the header and the footer of a file. It verifies a file of changes, but reads only both ends of a full
// backup.
func (r *Repository) end(ctx context.Context, f File) (h Header, footer Footer, err error) {
	if !f.Full {
		if footer, err = r.visit(ctx, f.Name, nil); err != nil {
			return h, footer, err
		}
	}
	start, err := r.part(ctx, f, 0)
	if err == nil {
		var frames *frameReader
		if frames, err = newFrameReader(bytes.NewReader(start)); err == nil {
			h = frames.header
		}
	}
	var last []byte
	if err == nil {
		last, err = r.part(ctx, f, max(0, f.Size-endBytes))
	}
	if err == nil {
		err = readFooter(last, &footer)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", f.Name, err)
	}
	return h, footer, err
}

// part reads up to endBytes of a file.
func (r *Repository) part(ctx context.Context, f File, from int64) (_ []byte, err error) {
	if r.Dir != "" {
		file, err := os.Open(r.path(f.Name))
		if err != nil {
			return nil, err
		}
		p, err := io.ReadAll(io.NewSectionReader(file, from, endBytes))
		return p, errors.Join(err, file.Close())
	}
	in, err := r.Bucket.NewRangeReader(ctx, f.String(), from, endBytes, nil)
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(in)
	return p, errors.Join(err, in.Close())
}

// readFooter reads the last line.
func readFooter(p []byte, footer *Footer) error {
	// a zero length ends the parts, and JSON has no zero byte
	read, err := parseFooter(p[bytes.LastIndexByte(p, 0)+1:])
	if err == nil {
		*footer = *read
	}
	return err
}
