package backup

import (
	"cmp"
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// reading is the first reading of a source.
type reading struct {
	*Source

	point  Point
	leases map[int64]time.Duration
	row    int64 // the revision of the last row
	dated  int64 // how many rows have a time; those of etcd and kine have none
	gaps   bool
}

// file reads one file. The leases and users of its end may not be those of a point before.
func (r *reading) file(ctx context.Context, name Name, first bool, lifted int64) error {
	through := r.row
	if !first {
		through = max(through, r.contents.Revision)
	}
	l := fileLeases{granted: map[int64]time.Duration{}, used: map[int64]bool{}}
	_, err := r.repository.visit(ctx, name, &visitor{
		header: func(h *Header) {
			if first {
				r.contents.Compacted = max(h.Compacted, 0)
				r.survivors = transfer.NewSurvivors(cmp.Or(lifted, r.contents.Compacted))
			}
		},
		auth: func(a *backend.Auth) {
			late := !first && !r.point.Time.IsZero() && name.At.After(r.point.Time)
			if c := &r.contents; !late && (c.Auth == nil || a.Revision >= c.Auth.Revision) {
				c.Auth = a
			}
		},
		allLeases: func() { l.all = true },
		granted:   func(id int64, ttl time.Duration) { l.granted[id] = ttl },
		ended:     func(id int64) { l.ended = append(l.ended, id) },
		row: func(row *backend.Row) error {
			if row.ModRevision > through {
				r.add(row)
				if row.Lease != 0 && row.ModRevision <= r.at {
					l.used[row.Lease] = true
				}
			}
			return nil
		},
	})
	l.apply(r.leases, name, r.at)
	r.contents.Revision = name.Revision
	return err
}

func (r *reading) add(row *backend.Row) {
	c := &r.contents
	if !r.point.Time.IsZero() && row.WrittenAt > r.point.Time.UnixMilli() {
		r.at = min(r.at, row.ModRevision-1)
	}
	if row.ModRevision > r.at {
		return
	}
	if row.ModRevision > max(r.row, c.Compacted, 1)+1 {
		r.gaps = true
	}
	r.row = row.ModRevision
	c.Rows++
	c.Bytes += row.Size()
	if row.WrittenAt != 0 {
		r.dated++
		r.written = time.UnixMilli(row.WrittenAt)
	}
	if r.survivors.At(row) && r.point.has(row.Key) {
		r.survivors.See(row)
	}
}
