package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// downloads is how many files are downloaded at once.
const downloads = 8

// download copies the files to this machine, because each is read several times.
func (s *Source) download(ctx context.Context) (err error) {
	if s.repository.Dir != "" {
		return nil
	}
	if s.downloaded, err = os.MkdirTemp(s.work, "sqlstore-restore-"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(s.downloaded, s.files[0].Chain), 0o700); err != nil {
		return err
	}
	s.bucket = s.repository
	s.repository = &Repository{Identities: s.bucket.Identities, Dir: s.downloaded}
	return s.fetch(ctx, s.files)
}

// fetch copies some files to this machine, unless the bucket is on it.
func (s *Source) fetch(ctx context.Context, names []Name) error {
	if s.bucket == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for _, name := range names {
		group.Go(func() error {
			if err := s.bucket.download(ctx, name, s.repository.path(name)); err != nil {
				return fmt.Errorf("download %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *Repository) download(ctx context.Context, name Name, path string) error {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(r.Bucket.Download(ctx, name.String(), to, nil), to.Close())
}
