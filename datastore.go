package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

const (
	// defaultDatastoreWait is how long Start waits for an unreachable Postgres.
	defaultDatastoreWait = time.Minute
	// datastoreRetry is the pause between two attempts. datastoreReport is the pause between the first two log lines;
	// each further pause doubles.
	datastoreRetry  = time.Second
	datastoreReport = 5 * time.Second
)

// OpenBackend opens the database that Datastore names and migrates it if needed. It waits for a Postgres that is
// unreachable. Errors: [ErrConfig], those of opening the database.
func (c *Config) OpenBackend(ctx context.Context) (backend.Backend, error) {
	return c.openBackend(ctx, func(error) {}, 0)
}

// openBackend is OpenBackend. It calls waiting with the reason why the database is not usable yet, and with nil once it
// is. A SQLite database holds reserve bytes of the disk; see [sqlite.Config].
func (c *Config) openBackend(
	ctx context.Context, waiting func(error), reserve int64,
) (backend.Backend, error) {
	if c.OnPostgres() {
		return c.openPostgres(ctx, waiting)
	}
	path, err := c.file()
	if err != nil {
		return nil, err
	}
	if err := refuseEtcdData(path); err != nil {
		return nil, err
	}
	b, err := sqlite.Open(ctx, sqlite.Config{
		Path: path, Temporary: path == "", UnsafeNoFsync: c.UnsafeNoFsync, ReserveBytes: reserve,
		NoPageChecksums: c.NoPageChecksums,
		TracerProvider:  c.TracerProvider, Logger: c.logger(),
	})
	if err != nil {
		return nil, err // a nil *sqlite.Backend would be a Backend that is not nil
	}
	return b, nil
}

// openPostgres retries until the server answers, or refuses for a reason that does not resolve itself.
func (c *Config) openPostgres(ctx context.Context, waiting func(error)) (backend.Backend, error) {
	if err := c.checkPasswordFile(); err != nil {
		return nil, err
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

// checkPasswordFile returns [ErrConfig] if the file with the password cannot be read.
func (c *Config) checkPasswordFile() error {
	if c.DatastorePasswordFile == "" {
		return nil
	}
	if _, err := os.ReadFile(c.DatastorePasswordFile); err != nil {
		return fmt.Errorf("%w: the datastore password file: %w", ErrConfig, err)
	}
	return nil
}

// await calls try until it succeeds, DatastoreWait has passed, or the database refuses for a reason that does not
// resolve itself. It tries a database other than Postgres once.
func (c *Config) await(ctx context.Context, waiting func(error), try func() error) error {
	timeout := c.DatastoreWait
	switch {
	case !c.OnPostgres():
		return try()
	case timeout == 0:
		timeout = defaultDatastoreWait
	}
	began := time.Now()
	deadline, report, pause := began.Add(timeout), began, datastoreReport
	retry := time.NewTicker(datastoreRetry)
	defer retry.Stop()
	for {
		err := try()
		waiting(err)
		now := time.Now()
		switch {
		case err == nil && report.After(began):
			c.logger().Info("database is available", "after", now.Sub(began))
			return nil
		case err == nil || ctx.Err() != nil || now.After(deadline) || !isTransient(err):
			return err
		case !now.Before(report):
			c.logger().Warn("database is not available yet, retrying", "error", err, "every", datastoreRetry,
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

// isTransient reports whether waiting can help.
func isTransient(err error) bool {
	return errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, postgres.ErrRefused)
}

// OpenView opens the database that Datastore names for reading, also while servers write to it. Errors: [ErrConfig],
// those of opening the database.
func (c *Config) OpenView(ctx context.Context) (backend.View, error) {
	if c.OnPostgres() {
		return view(postgres.OpenView(ctx, c.postgres()))
	}
	path, err := c.file()
	if err != nil {
		return nil, err
	}
	return view(sqlite.OpenView(ctx, path))
}

// view returns no View at all after an error: a nil pointer would be a View that is not nil.
func view[V backend.View](v V, err error) (backend.View, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// WithDatabase passes the database to f without migrating it, to inspect or change its schema. Errors: [ErrConfig],
// those of opening the database, and those of f.
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
