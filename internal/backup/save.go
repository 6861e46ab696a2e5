package backup

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// unknownEpoch is the epoch of a full backup that no server has written.
const unknownEpoch = -1

// Full writes a full backup of a source as a chain of its own, at a time, and returns the file. version is that of
// sqlstore. Errors: those of the bucket and of the source.
func (r *Repository) Full(
	ctx context.Context, from backend.Source, version string, at time.Time,
) (Name, Footer, error) {
	c := from.Contents()
	f := full{
		header: Header{
			Format: format, Version: version, ClusterID: strconv.FormatUint(c.ClusterID, 16), Revision: c.Revision,
			Compacted: c.Compacted, At: at, Epoch: unknownEpoch,
		},
		chain: chainName(at, c.ClusterID), leases: c.Leases, auth: c.Auth, rows: from.Rows,
	}
	return r.full(ctx, &f)
}

// full is what a full backup consists of.
type full struct {
	header Header
	chain  string
	leases []backend.Lease
	auth   *backend.Auth
	rows   func(context.Context, func(*backend.Row) error) error
}

func (r *Repository) full(ctx context.Context, o *full) (Name, Footer, error) {
	name := Name{
		Chain: o.chain, Revision: o.header.Revision, Full: true, At: o.header.At, Encrypted: len(r.Recipients) > 0,
	}
	w, err := r.create(ctx, name, &o.header)
	if err != nil {
		return name, Footer{}, err
	}
	if err := o.write(ctx, w); err != nil {
		w.abort()
		return name, Footer{}, fmt.Errorf("write %s: %w", name, err)
	}
	footer, err := r.finish(w, name)
	return name, footer, err
}

func (o *full) write(ctx context.Context, w *fileWriter) error {
	if o.auth != nil {
		if err := w.encoder.auth(o.auth); err != nil {
			return err
		}
	}
	if err := w.allLeases(); err != nil {
		return err
	}
	for _, l := range o.leases {
		if err := w.granted(l.ID, l.TTL); err != nil {
			return err
		}
	}
	return o.rows(ctx, w.row)
}

// finish completes a file.
func (r *Repository) finish(w *fileWriter, name Name) (Footer, error) {
	footer, err := w.end()
	if err != nil {
		return footer, fmt.Errorf("write %s: %w", name, err)
	}
	return footer, nil
}
