package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// fileWriter writes one file. Nothing appears in the bucket before end.
type fileWriter struct {
	*encoder

	blob   io.WriteCloser // with the context that cancel ends
	cancel context.CancelFunc
	frames *frameWriter
	sealed io.WriteCloser // nil without encryption
	zip    *zstd.Encoder
	header *Header
}

// create begins a file.
func (r *Repository) create(ctx context.Context, name Name, h *Header) (_ *fileWriter, err error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fileWriter{cancel: cancel, header: h}
	defer func() {
		if err != nil {
			f.abort()
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	w, err := r.writer(ctx, name)
	if err != nil {
		return nil, err
	}
	f.blob = w
	if f.frames, err = newFrameWriter(f.blob, h); err != nil {
		return nil, err
	}
	into := io.Writer(f.frames)
	if len(r.Recipients) > 0 {
		if f.sealed, err = age.Encrypt(into, r.Recipients...); err != nil {
			return nil, err
		}
		into = f.sealed
	}
	f.zip, err = zstd.NewWriter(into, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	f.encoder = newEncoder(f.zip)
	return f, nil
}

// writer returns a file whose Close completes it, or discards it if the context has ended.
func (r *Repository) writer(ctx context.Context, name Name) (io.WriteCloser, error) {
	if r.Dir != "" {
		return r.createLocal(ctx, name)
	}
	return r.Bucket.NewWriter(ctx, name.String(), &blob.WriterOptions{
		ContentType: "application/octet-stream", DisableContentTypeDetection: true,
	})
}

// end completes the file.
func (f *fileWriter) end() (Footer, error) {
	footer, err := f.encoder.end(f.header.Revision)
	if err == nil {
		err = f.zip.Close()
	}
	if err == nil && f.sealed != nil {
		err = f.sealed.Close()
	}
	if err == nil {
		err = f.frames.end(footer)
	}
	if err != nil {
		f.abort()
		return footer, err
	}
	err = f.blob.Close()
	f.cancel()
	return footer, err
}

// abort discards the file, unless it has ended.
func (f *fileWriter) abort() {
	f.cancel()
	if f.blob != nil {
		_ = f.blob.Close() // fails, because its context has ended
	}
	if f.zip != nil {
		f.zip.Reset(nil)
	}
}

// visit reads a whole file. If v is nil, the file is verified, but neither decrypted nor decoded. Errors: [ErrDamaged],
// [ErrKey], [ErrNewer], those of the bucket and of v.row.
func (r *Repository) visit(ctx context.Context, name Name, v *visitor) (Footer, error) {
	footer, err := r.visitNamed(ctx, name, v)
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return footer, err
}

func (r *Repository) visitNamed(ctx context.Context, name Name, v *visitor) (_ Footer, err error) {
	from, err := r.open(ctx, name)
	if err != nil {
		return Footer{}, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	frames, err := newFrameReader(from)
	if err != nil {
		return Footer{}, err
	}
	if h := &frames.header; h.Revision != name.Revision || h.After != name.After {
		return Footer{}, fmt.Errorf("%w: it covers revisions %d to %d", ErrDamaged, h.After, h.Revision)
	}
	if v != nil {
		if v.header != nil {
			v.header(&frames.header)
		}
		if err := r.decode(frames, name.Encrypted, v); err != nil {
			return Footer{}, err
		}
	}
	if _, err := io.Copy(io.Discard, frames); err != nil {
		return Footer{}, err
	}
	return *frames.footer, nil
}

// decode decrypts, decompresses and decodes a payload.
func (r *Repository) decode(frames io.Reader, encrypted bool, v *visitor) error {
	from := frames
	if encrypted {
		if len(r.Identities) == 0 {
			return ErrKey
		}
		opened, err := age.Decrypt(frames, r.Identities...)
		var wrong *age.NoIdentityMatchError
		switch {
		case errors.As(err, &wrong):
			return ErrKey
		case err != nil:
			return unreadable(err)
		}
		from = opened
	}
	unzipped, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	defer unzipped.Close()
	return decode(readable{unzipped}, v)
}

// readable makes the errors of decompression those of a damaged file.
type readable struct{ io.Reader }

func (r readable) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadable(err)
	}
	return n, err
}

func unreadable(err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, context.Canceled) || gcerrors.Code(err) != gcerrors.Unknown {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
