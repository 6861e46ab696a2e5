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
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Config is the location of the database and how to use it.
type Config struct {
	// Path is the database file. If it or its directory is missing, it is created with access for the owner only.
	Path string
	// Temporary puts the database into a new temporary directory, which Close removes. Path must be empty, and nothing
	// is synced.
	Temporary bool
	// UnsafeNoFsync lets commits return before they are synced: a crash of the machine may lose or damage the database.
	UnsafeNoFsync bool
	// NoPageChecksums reads pages without verifying their checksums, which no other program maintains. So another one,
	// such as Litestream, may copy the log into the file while this one has it open.
	NoPageChecksums bool
	// ReserveBytes is the disk space in bytes to hold in reserve next to the database, for deletes and compaction on a
	// full disk. 0 leaves an existing reserve untouched; a negative value removes it. A temporary database has none.
	ReserveBytes int64
	// Readers is the number of reading connections; 0 chooses one that suits the machine.
	Readers int
	// TracerProvider receives the spans of reads and commits within a context that has a recorded span; nil means none.
	TracerProvider trace.TracerProvider
	// Logger receives log messages; nil means slog's default logger.
	Logger *slog.Logger
}

// Open opens the database, creates or migrates it if needed, and keeps every other process from opening it.
//
// Errors: [backend.ErrInUse], [schema.ErrNewer], [schema.ErrDirty], [ErrNotSQLStore], [ErrCorrupt], [ErrStaleLog], and
// file system errors.
func Open(ctx context.Context, cfg Config) (*Backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Readers <= 0 {
		cfg.Readers = max(4, 2*runtime.GOMAXPROCS(0))
	}
	b := &Backend{
		cfg: cfg, log: cfg.Logger, tracer: tracing.New(cfg.TracerProvider),
		now: func() int64 { return time.Now().UnixMilli() },
	}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", b.path, err), b.release())
	}
	b.run()
	return b, nil
}

// run starts the work in the background, which Close stops. It comes after everything that can fail: release stops
// nothing.
func (b *Backend) run() {
	b.checkpoints = startCheckpointer(b)
	b.opening.Go(b.openReaders)
	b.watching.Go(b.watchPlace)
	b.checkpoints.poke() // copy what a crash has left in the WAL
	b.reserve.start()
}

func (b *Backend) open(ctx context.Context) error {
	if err := b.makeDirectory(); err != nil {
		return err
	}
	if err := refuseForeign(b.path); err != nil {
		return err
	}
	provideTempDir(filepath.Dir(b.path))
	lock, err := lockFile(b.path + ".lock")
	if err != nil {
		return err
	}
	b.lock = lock
	if b.lockInfo, err = lock.Stat(); err != nil {
		return err
	}
	if err := b.makeFile(); err != nil {
		return err
	}
	noted, err := readNote(lock)
	if err != nil {
		return err
	}
	b.before = noted.reached
	if b.reserve, err = b.openReserve(); err != nil {
		return err
	}
	if err := removeCopy(b.defragmented()); err != nil {
		return err
	}
	b.leave()
	b.warnOfOthers()
	log, err := b.settleLog(ctx, noted)
	if err != nil {
		return err
	}
	b.warnOfNoLog()
	prepare := b.adoptFile
	if own := noted.writtenHere(b.path, log.filled); own && log.belongs == log.filled && !b.cfg.NoPageChecksums {
		prepare = b.prepareOwn
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	if err := b.load(); err != nil {
		return err
	}
	b.leave()
	return b.note(b.owner())
}

// prepareOwn is prepareFile for a file that only this program has written to. It also copies and removes the log of a
// crash. If the start then fails, the next one must not take damaged pages for another program's.
func (b *Backend) prepareOwn(ctx context.Context) error {
	err := b.prepareFile(ctx, true)
	b.leave()
	return errors.Join(err, b.note(ownPages))
}

// adoptFile is prepareFile for a file that another program may have written to.
func (b *Backend) adoptFile(ctx context.Context) error {
	if err := b.note(unknownPages); err != nil {
		return err
	}
	if err := b.prepareFile(ctx, false); err != nil {
		return err
	}
	if b.cfg.NoPageChecksums {
		return nil
	}
	return b.adoptPages(ctx)
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
		b.given = b.path
		return nil
	case b.cfg.Path == "":
		return errors.New("no path given")
	}
	path, err := filepath.Abs(b.cfg.Path)
	if err != nil {
		return err
	}
	b.path, b.given = path, path
	if err := b.makeDirectories(filepath.Dir(path)); err != nil {
		return err
	}
	b.path, err = resolve(path)
	return err
}

// maxLinks is the maximum number of symbolic links to follow to the file.
const maxLinks = 40

// resolve follows symbolic links to the file, which need not exist. SQLite puts the WAL next to the file itself, and
// there must be one lock for the file, whatever name it is opened by.
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

// makeFile opens and locks the file and makes sure that it exists and is writable before SQLite opens it, because
// SQLite would only report "unable to open database file". The WAL and its index inherit the mode of the file.
func (b *Backend) makeFile() error {
	f, all, err := lockDatabase(b.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	b.file, b.fileLocked = f, all
	b.file.Seal(false)
	return nil
}

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Refusing = (*Backend)(nil)
)
