package backup

import (
	"context"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Verification is what [Repository.Verify] has found in one chain.
type Verification struct {
	Chain Chain
	// Files and Bytes were read, of Rows rows.
	Files       int
	Bytes, Rows int64
	// Decoded is set if the payloads were read, too: those of encrypted files need identities.
	Decoded bool
	// Problems are in words. A chain can be restored up to Through in spite of them.
	Problems []string
	Through  int64
}

// Verify reads all files of a chain, and calls progress after each. Errors: those of the bucket. Damage is not an
// error.
func (r *Repository) Verify(ctx context.Context, c *Chain, progress func(File)) (*Verification, error) {
	path, others := c.Path()
	v := &Verification{Chain: *c, Decoded: true}
	if others > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d files do not connect with those before them: files between "+
			"are missing, or another server has written the same changes", others))
	}
	for _, f := range c.Files {
		footer, err := r.verify(ctx, f, v)
		v.Files++
		v.Bytes += f.Size
		v.Rows += footer.Rows
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			v.Problems = append(v.Problems, err.Error())
			if at := slices.Index(path, f); at >= 0 {
				path = path[:at]
			}
		}
		if progress != nil {
			progress(f)
		}
	}
	if len(path) > 0 {
		v.Through = path[len(path)-1].Revision
	}
	return v, nil
}

func (r *Repository) verify(ctx context.Context, f File, v *Verification) (Footer, error) {
	if f.Encrypted && len(r.Identities) == 0 {
		v.Decoded = false
		return r.visit(ctx, f.Name, nil)
	}
	rows := int64(0)
	footer, err := r.visit(ctx, f.Name, &visitor{row: func(*backend.Row) error {
		rows++
		return nil
	}})
	if err == nil && rows != footer.Rows {
		err = fmt.Errorf("read %s: %w: it has %d rows instead of %d", f.Name, ErrDamaged, rows, footer.Rows)
	}
	return footer, err
}
