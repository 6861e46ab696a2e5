package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// Bump is how far a restored store's revision is lifted above the newest one of the bucket. The lost store may have
// handed out more than was saved; at 10,000 commits a second, it takes a day to commit that many.
const Bump = 1_000_000_000

// clockSkew is how far the clock of a server, which times the files, usually differs from that of its database, which
// times the commits.
const clockSkew = 10 * time.Minute

// Source is a store as it was saved. It implements [backend.Source].
type Source struct {
	repository *Repository
	work       string      // the directory for downloads
	downloaded string      // the directory made in it, if any
	bucket     *Repository // that the files are downloaded from, nil if they are on this machine
	files      []Name
	later      []Name // the files behind those, which are needed only if clocks differ by more than clockSkew
	contents   backend.Contents
	at         int64
	written    time.Time
	survivors  *transfer.Survivors
}

// Open verifies the files that lead to a point, and returns the store at it. Errors: [ErrNone], [ErrSeveral],
// [ErrMissing], [ErrDamaged], [ErrKey], [ErrNewer], those of the bucket. What is not on this machine is downloaded into
// the directory work, until Close.
func (r *Repository) Open(ctx context.Context, p Point, work string) (*Source, error) {
	all, err := r.Chains(ctx)
	if err != nil {
		return nil, err
	}
	c, err := p.choose(all)
	if err != nil {
		return nil, err
	}
	s := &Source{repository: r, work: work}
	last := int64(0)
	for i := range all {
		for _, f := range all[i].Files {
			last = max(last, f.Revision)
		}
	}
	if err := s.choose(c, p); err != nil {
		return nil, err
	}
	if err := s.download(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	lifted := last + Bump
	if p.Keep {
		lifted = 0
	}
	if err := s.read(ctx, p, lifted); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.contents.ClusterID = c.clusterID()
	return s, nil
}

// choose chooses the files of the chain up to the point.
func (s *Source) choose(c *Chain, p Point) error {
	path, _ := c.Path()
	end := path[len(path)-1]
	beyond := p.Revision > end.Revision || p.Time.After(end.At)
	from, to := c.Missing()
	switch {
	case from != 0 && (beyond || p.newest()):
		return fmt.Errorf("%w: those of revisions %d to %d in the chain %s; what is before them can be restored: "+
			"chain %s at revision %d", ErrMissing, from, to, c.Name, c.Name, end.Revision)
	case beyond:
		return fmt.Errorf("%w: the chain %s ends with what was saved at %s, revision %d; without a revision or time, "+
			"that is restored", ErrNone, c.Name, end.At.Format(time.RFC3339Nano), end.Revision)
	}
	last := slices.IndexFunc(path, func(f File) bool {
		return p.Revision != 0 && f.Revision >= p.Revision || !p.Time.IsZero() && f.At.After(p.Time.Add(clockSkew))
	})
	// Files without rows, of users and leases, may follow at the same revision.
	for p.Revision != 0 && last >= 0 && last+1 < len(path) && path[last+1].Revision == p.Revision {
		last++
	}
	for i, f := range path {
		if last < 0 || i <= last {
			s.files = append(s.files, f.Name)
		} else {
			s.later = append(s.later, f.Name)
		}
	}
	return nil
}

// read reads everything once.
func (s *Source) read(ctx context.Context, p Point, lifted int64) error {
	r := &reading{Source: s, point: p, leases: map[int64]time.Duration{}}
	s.at = cmp.Or(p.Revision, math.MaxInt64)
	for i := 0; i < len(s.files); i++ {
		name := s.files[i]
		err := r.file(ctx, name, i == 0, lifted)
		if errors.Is(err, ErrDamaged) && i > 0 {
			err = fmt.Errorf("%w; what is before it can be restored: chain %s at revision %d", err, name.Chain,
				s.files[i-1].Revision)
		}
		if err == nil && i == len(s.files)-1 && !p.Time.IsZero() && s.at == math.MaxInt64 {
			err = s.further(ctx)
		}
		if err != nil {
			return err
		}
	}
	s.at = min(s.at, s.files[len(s.files)-1].Revision)
	c := &s.contents
	// Without a commit time, a row of the full backup may be newer than a time before it.
	unknown := p.Revision != 0 && s.at < s.files[0].Revision && r.row == 0 ||
		!p.Time.IsZero() && p.Time.Before(s.files[0].At) && r.written.IsZero()
	if s.at < c.Compacted || unknown {
		return fmt.Errorf("%w: %s is before the history of the oldest backup, which begins at revision %d: choose a "+
			"time after %s", ErrNone, &p, max(c.Compacted, 1), s.files[0].At.Format(time.RFC3339Nano))
	}
	c.Revision = s.at
	c.Gaps = r.gaps || max(r.row, c.Compacted, 1) < s.at
	if lifted != 0 {
		c.Revision, c.Compacted, c.Gaps = lifted, lifted, true
	}
	c.Dated = r.dated == c.Rows
	if c.Auth != nil && c.Auth.Revision <= 1 {
		c.Auth = nil
	}
	for id, ttl := range r.leases {
		c.Leases = append(c.Leases, backend.Lease{ID: id, TTL: ttl})
	}
	slices.SortFunc(c.Leases, func(a, b backend.Lease) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// further adds the next file, if there is one, because all rows until now were committed before the time to restore.
func (s *Source) further(ctx context.Context) error {
	if len(s.later) == 0 {
		return nil
	}
	next := s.later[:1]
	s.files, s.later = append(s.files, next...), s.later[1:]
	return s.fetch(ctx, next)
}

// Chain returns the chain that the source is read from.
func (s *Source) Chain() string { return s.files[0].Chain }

// At returns the revision of the point, and when it was committed; the zero time if that is not known.
func (s *Source) At() (revision int64, written time.Time) { return s.at, s.written }

// Contents implements [backend.Source].
func (s *Source) Contents() *backend.Contents { return &s.contents }

// errEnough ends the reading of a file.
var errEnough = errors.New("enough")

// Rows implements [backend.Source].
func (s *Source) Rows(ctx context.Context, f func(*backend.Row) error) error {
	last := int64(0)
	for _, name := range s.files {
		_, err := s.repository.visit(ctx, name, &visitor{row: func(r *backend.Row) error {
			switch {
			case r.ModRevision <= last:
				return nil
			case r.ModRevision > s.at:
				return errEnough
			case !s.survivors.Has(r):
				return nil
			}
			return f(r)
		}})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		last = name.Revision
	}
	return nil
}

// Close implements [backend.Source].
func (s *Source) Close() error {
	if s.downloaded == "" {
		return nil
	}
	return os.RemoveAll(s.downloaded)
}
