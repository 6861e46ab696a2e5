package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/sqlstore/sqlstore/backend"
)

// Config says where the database is and how it is used.
type Config struct {
	// Path is the database file. It and its directory are made when missing, for the owner only.
	Path string
	// Temporary puts the database into a directory of its own, which Close removes. Path must be empty, and nothing is
	// synced.
	Temporary bool
	// UnsafeNoFsync lets commits return before they are synced: a crash of the machine may lose or damage the database.
	UnsafeNoFsync bool
	// ReserveBytes is the disk space to hold in reserve beside the database, for deletes and compaction on a full disk.
	// 0 leaves a reserve that is there alone, negative removes it. A temporary database has none.
	ReserveBytes int64
	// Readers is the number of reading connections, 0 for a number that fits the machine.
	Readers int
	// Logger takes warnings and errors, nil for slog's default.
	Logger *slog.Logger
}

// Open opens the database, creates or migrates it where needed, and keeps every other process from doing so.
//
// Errors: [backend.ErrInUse], [schema.ErrNewer], [schema.ErrDirty], [ErrNotSQLStore], [ErrCorrupt],
// [ErrStaleLog], and those of the file system.
func Open(ctx context.Context, cfg Config) (*Backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Readers <= 0 {
		cfg.Readers = max(4, 2*runtime.GOMAXPROCS(0))
	}
	b := &Backend{cfg: cfg, log: cfg.Logger}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", b.path, err), b.release())
	}
	return b, nil
}

func (b *Backend) open(ctx context.Context) error {
	if err := b.makeDirectory(); err != nil {
		return err
	}
	// The lock comes before any look at the file: closing a file gives up all POSIX locks that the process has on it,
	// SQLite's as well, if another Backend of this process had it open.
	lock, err := lockFile(b.path + ".lock")
	if err != nil {
		return err
	}
	b.lock = lock
	if b.reserve, err = b.openReserve(); err != nil {
		return err
	}
	if err := removeCopy(b.defragmented()); err != nil {
		return err
	}
	if err := b.makeFile(); err != nil {
		return err
	}
	if err := b.checkLog(); err != nil {
		return err
	}
	if err := b.forgetFiles(); err != nil {
		return err
	}
	if err := b.prepareFile(ctx); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	if err := b.noteFiles(); err != nil {
		return err
	}
	b.checkpoints.poke() // what a crash has left in the WAL
	b.reserve.start()
	return nil
}

func (b *Backend) makeDirectory() error {
	switch {
	case b.cfg.Temporary && b.cfg.Path != "":
		return errors.New("a temporary database takes no path")
	case b.cfg.Temporary:
		dir, err := os.MkdirTemp("", "sqlstore-")
		if err != nil {
			return err
		}
		b.tempDir, b.path = dir, filepath.Join(dir, "sqlstore.db")
		return nil
	case b.cfg.Path == "":
		return errors.New("no path given")
	}
	path, err := filepath.Abs(b.cfg.Path)
	if err != nil {
		return err
	}
	b.path = path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	b.path, err = resolve(path)
	return err
}

// maxLinks is how many symbolic links may lead to the file.
const maxLinks = 40

// resolve follows symbolic links to the file, which need not be there: SQLite puts the WAL beside the file itself, and
// there must be one lock for it, whatever name it is opened by.
func resolve(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && info.Mode()&os.ModeSymlink == 0 {
			return path, nil
		}
		if err != nil {
			return path, err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path, err
		}
		if !filepath.IsAbs(target) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return path, err
			}
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return path, fmt.Errorf("follow the symbolic link: %w", syscall.ELOOP)
}

// makeFile opens the file and makes sure that it is there and can be written, before SQLite is asked, whose answer
// would be "unable to open database file". The WAL and its index take over the mode of the file.
func (b *Backend) makeFile() error {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the file must be readable and writable: %w", err)
	}
	b.file = f
	return nil
}

var _ backend.Backend = (*Backend)(nil)
