package pgbouncer

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// local is a PgBouncer that runs as a process of this machine.
type local struct {
	cmd *exec.Cmd
	dir string
}

func startLocal(tb testing.TB, program string, files map[string]string) (pooler, error) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sqlstore-pgbouncer-") //nolint:usetesting // another user needs access
	if err != nil {
		return nil, err
	}
	l := &local{dir: dir}
	if err := l.start(program, files); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

func (l *local) start(program string, files map[string]string) error {
	credentials, err := launch.OtherThanRoot()
	if err != nil {
		return err
	}
	if credentials != nil {
		if err := os.Chown(l.dir, int(credentials.Uid), int(credentials.Gid)); err != nil {
			return err
		}
	}
	if err := write(l.dir, files); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	l.cmd = exec.Command(program, configName)
	l.cmd.Dir = l.dir
	l.cmd.Stdout, l.cmd.Stderr = log, log
	l.cmd.SysProcAttr = sysProcAttr(credentials)
	return l.cmd.Start()
}

func (l *local) remove() error {
	err := l.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = errors.New("it exited unexpectedly")
	}
	_ = l.cmd.Wait() // reports that it was killed
	return errors.Join(err, os.RemoveAll(l.dir))
}

func (l *local) logs() string {
	b, _ := os.ReadFile(filepath.Join(l.dir, "log"))
	return string(bytes.TrimSpace(b[max(0, len(b)-16<<10):]))
}
