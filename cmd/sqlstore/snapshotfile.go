package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sqlstore/sqlstore/internal/transfer"
	"github.com/sqlstore/sqlstore/internal/transfer/live"
)

// oldestSnapshot is the age up to which an import continues with its snapshot.
const oldestSnapshot = 24 * time.Hour

// errOldSnapshot is returned for an import that was interrupted too long ago.
var errOldSnapshot = errors.New("the import was interrupted too long ago")

// snapshotFile is where an import saves the snapshot of a running server, so that it can continue if it is interrupted.
type snapshotFile struct {
	path string
	// begun is set if the target has rows of an import that has not ended. Only that one continues with the file; any
	// other file at the path is left over, and replaced.
	begun bool
}

// snapshotPath is where the snapshot of a running server lies for one command, source, user and target.
func (s *sourceFlags) snapshotPath(command, target string) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q", []string{command, s.name(), s.user, target})
	return filepath.Join(s.dir, fmt.Sprintf("sqlstore-import-%016x.db", h.Sum64()))
}

// openLive opens a snapshot of a running server: that of the import which has begun, or a new one.
func (s *sourceFlags) openLive(ctx context.Context, file *snapshotFile, errOut io.Writer) (_ *openSource, err error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	if file != nil && file.begun {
		return s.continueWith(ctx, server, file.path, errOut)
	}
	opened := &openSource{}
	defer func() {
		if err != nil && opened.temporary != "" {
			err = errors.Join(err, os.RemoveAll(opened.temporary))
		}
	}()
	var path string
	if file != nil {
		path, opened.temporary = file.path, file.path
	} else {
		if opened.temporary, err = os.MkdirTemp(s.dir, "sqlstore-snapshot-"); err != nil {
			return nil, err
		}
		path = filepath.Join(opened.temporary, "snapshot.db")
	}
	_, _ = fmt.Fprintf(errOut, "saving a snapshot of %s in %s\n", s.name(), path)
	if err := live.Save(ctx, server, path); err != nil {
		return nil, err
	}
	src, err := live.Open(ctx, server, path)
	if err != nil {
		return nil, err
	}
	opened.Source = src
	return opened, nil
}

// continueWith opens the snapshot of an import that was interrupted.
func (s *sourceFlags) continueWith(
	ctx context.Context, server *live.Server, path string, errOut io.Writer,
) (*openSource, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; this one would continue with its snapshot %s, which does not exist",
			transfer.ErrOtherImport, path)
	}
	if err != nil {
		return nil, err
	}
	began := info.ModTime().UTC().Format(stamp)
	if time.Since(info.ModTime()) > oldestSnapshot {
		return nil, fmt.Errorf("%w: its snapshot %s is of %s: remove it, drop the target's database, and begin again",
			errOldSnapshot, path, began)
	}
	src, err := live.Open(ctx, server, path)
	if err != nil {
		return nil, fmt.Errorf("continue the import begun at %s: %w; to give it up, drop the target's database", began,
			err)
	}
	_, _ = fmt.Fprintf(errOut, "continuing the import begun at %s, with the source as of revision %d\n", began,
		src.Contents().Revision)
	return &openSource{Source: src, temporary: path, keep: true}, nil
}
