package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// Programs are the machine's Postgres programs, for tests that run servers in a way of their own.
type Programs struct {
	binaries

	// Credential is the user to run the programs as, because Postgres refuses to run as root; nil for the current user.
	Credential *syscall.Credential
}

// FindPrograms finds the programs of version SQLSTORE_TEST_POSTGRES_VERSION, or of any version if that is unset.
func FindPrograms() (Programs, error) {
	b, err := findBinaries(env.PostgresVersion.Text())
	if err != nil {
		return Programs{}, err
	}
	user, err := launch.OtherThanRoot()
	return Programs{b, user}, err
}

// Path returns the path of a program.
func (p Programs) Path(program string) string { return filepath.Join(p.bin, program) }

// Create creates a cluster without page checksums in the subdirectory data of dir, which it hands over to the user
// that the programs run as. Anyone can connect as superuser postgres, without a password.
func (p Programs) Create(dir string) (data string, err error) {
	if p.Credential != nil {
		if err := os.Chown(dir, int(p.Credential.Uid), int(p.Credential.Gid)); err != nil {
			return "", err
		}
	}
	data = filepath.Join(dir, "data")
	initdb := exec.Command(p.Path("initdb"), append((&Options{}).pages(p.version), "--pgdata="+data,
		"--username="+superuser, "--auth=trust", "--encoding=UTF8", "--no-sync", "--wal-segsize=1")...)
	initdb.Dir, initdb.Env = dir, append(os.Environ(), "LC_ALL=C")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: p.Credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return data, nil
}

// Accepts waits until a server accepts connections.
func Accepts(ctx context.Context, dsn string) error {
	for {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
