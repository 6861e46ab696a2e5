package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

const (
	// defaultDatastoreWait is how long a start waits for a Postgres that cannot be reached yet.
	defaultDatastoreWait = time.Minute
	// datastoreRetry is the pause between two tries, datastoreReport that from the first line in the log to the second;
	// each further pause is twice as long.
	datastoreRetry  = time.Second
	datastoreReport = 5 * time.Second
)

// datastoreForm is how to name a database, for those who wrote something else.
const datastoreForm = "write sqlite:///path/to/file, with three slashes before an absolute path, or " +
	"postgres://user@host:5432/database"

// OnPostgres says whether Datastore names a Postgres database.
func (c *Config) OnPostgres() bool {
	return strings.HasPrefix(c.Datastore, "postgres://") || strings.HasPrefix(c.Datastore, "postgresql://")
}

// Temporary says whether the store is one that ends with its server.
func (c *Config) Temporary() bool { return c.Datastore == "" && c.DataDir == "" }

// file resolves Datastore to the path of a SQLite file, "" for a temporary one. Errors: [ErrConfig].
func (c *Config) file() (string, error) {
	switch {
	case c.Temporary():
		return "", nil
	case c.Datastore == "" || c.Datastore == "sqlite" || c.Datastore == "sqlite://":
		if c.DataDir == "" {
			return "", fmt.Errorf("%w: datastore %q needs a data directory", ErrConfig, c.Datastore)
		}
		return filepath.Join(c.DataDir, "sqlstore.db"), nil
	}
	u, err := url.Parse(c.Datastore)
	if err != nil { // the URL may hold a password, and so may the parser's message
		return "", fmt.Errorf("%w: datastore is not a URL: %s", ErrConfig, datastoreForm)
	}
	if u.Scheme != "sqlite" {
		return "", fmt.Errorf("%w: datastore is of the unknown kind %q: %s", ErrConfig, u.Scheme, datastoreForm)
	}
	switch {
	case u.Host != "" || u.User != nil: // with two slashes, a path's first part
		return "", fmt.Errorf("%w: datastore %s has the host %q, but SQLite has files: %s", ErrConfig, u.Redacted(),
			u.Host, datastoreForm)
	case u.RawQuery != "" || u.ForceQuery:
		return "", fmt.Errorf("%w: datastore %s has the query ?%s, but takes no options; a ? in a path is written %%3F",
			ErrConfig, u.Redacted(), u.RawQuery)
	case u.Fragment != "" || strings.HasSuffix(c.Datastore, "#"):
		return "", fmt.Errorf("%w: datastore %s has the fragment #%s; a # in a path is written %%23", ErrConfig,
			u.Redacted(), u.Fragment)
	case strings.Trim(u.Path, "/") == "":
		return "", fmt.Errorf("%w: datastore %s names no file: %s", ErrConfig, u.Redacted(), datastoreForm)
	}
	return u.Path, nil
}

// Database tells which database Datastore names, without secrets: a path, a URL, or "temporary". Errors: [ErrConfig].
func (c *Config) Database() (string, error) {
	if c.OnPostgres() {
		return postgres.Redact(c.Datastore), nil
	}
	path, err := c.file()
	if path == "" {
		path = "temporary"
	}
	return path, err
}

func (c *Config) postgres() postgres.Config {
	return postgres.Config{
		DSN: c.Datastore, PasswordFile: c.DatastorePasswordFile, MaxConns: c.DatastoreMaxConns,
		UnsafeNoFsync: c.UnsafeNoFsync, Logger: c.logger(),
	}
}

func (c *Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// OpenBackend opens the database that Datastore names and migrates it if need be. A Postgres that cannot be reached is
// waited for. Errors: [ErrConfig], those of opening the database.
func (c *Config) OpenBackend(ctx context.Context) (backend.Backend, error) {
	return c.openBackend(ctx, func(error) {})
}

// openBackend is OpenBackend; waiting gets why the database cannot be used yet, and nil once it can.
func (c *Config) openBackend(ctx context.Context, waiting func(error)) (backend.Backend, error) {
	if c.OnPostgres() {
		return c.openPostgres(ctx, waiting)
	}
	path, err := c.file()
	if err != nil {
		return nil, err
	}
	b, err := sqlite.Open(ctx, sqlite.Config{
		Path: path, Temporary: path == "", UnsafeNoFsync: c.UnsafeNoFsync,
		Logger: c.logger(),
	})
	if err != nil {
		return nil, err // a nil *sqlite.Backend would be a Backend that is not nil
	}
	return b, nil
}

// openPostgres tries until the server answers, or refuses for a reason that does not go away by itself.
func (c *Config) openPostgres(ctx context.Context, waiting func(error)) (backend.Backend, error) {
	if c.DatastorePasswordFile != "" {
		if _, err := os.Stat(c.DatastorePasswordFile); err != nil {
			return nil, fmt.Errorf("%w: the file of the datastore's password: %w", ErrConfig, err)
		}
	}
	var b backend.Backend
	err := c.await(ctx, waiting, func() error {
		opened, err := postgres.Open(ctx, c.postgres())
		if err == nil {
			b = opened
		}
		return err
	})
	return b, err
}

// await tries until try succeeds, the patience of DatastoreWait is at its end, or the database refuses for a reason
// that does not go away by itself. A database that is not Postgres is tried once.
func (c *Config) await(ctx context.Context, waiting func(error), try func() error) error {
	patience := c.DatastoreWait
	switch {
	case !c.OnPostgres():
		return try()
	case patience == 0:
		patience = defaultDatastoreWait
	}
	began := time.Now()
	deadline, report, pause := began.Add(patience), began, datastoreReport
	retry := time.NewTicker(datastoreRetry)
	defer retry.Stop()
	for {
		err := try()
		waiting(err)
		now := time.Now()
		switch {
		case err == nil && report.After(began):
			c.logger().Info("the database can be used", "after", now.Sub(began))
			return nil
		case err == nil || ctx.Err() != nil || now.After(deadline) || !comesBack(err):
			return err
		case !now.Before(report):
			c.logger().Warn("the database cannot be used yet, it is tried again", "error", err, "every", datastoreRetry,
				"until", deadline.UTC().Truncate(time.Second), "next-report-in", pause)
			report, pause = now.Add(pause), 2*pause
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-retry.C:
		}
	}
}

// comesBack says whether waiting can help: not where the server knows the user, the password or the database to be
// wrong.
func comesBack(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (strings.HasPrefix(refused.Code, "28") || refused.Code == "3D000") {
		return false
	}
	return errors.Is(err, backend.ErrUnavailable)
}

// WithDatabase hands the database to f without migrating it, for looking at its schema and changing it. Errors:
// [ErrConfig], those of opening the database, f's.
func (c *Config) WithDatabase(ctx context.Context, f func(context.Context, *sql.DB) error) error {
	if c.OnPostgres() {
		return postgres.WithDatabase(ctx, c.postgres(), f)
	}
	path, err := c.file()
	if err != nil {
		return err
	}
	return sqlite.WithDatabase(ctx, path, f)
}
