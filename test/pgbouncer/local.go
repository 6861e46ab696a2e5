package pgbouncer

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// local is a PgBouncer that runs as a process of this machine.
type local struct {
	cmd *exec.Cmd
	dir string
}

func startLocal(tb testing.TB, program string, files map[string]string) (pooler, error) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sqlstore-pgbouncer-") //nolint:usetesting // another user must get in
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
	credentials, err := otherThanRoot()
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
		err = errors.New("it ended by itself")
	}
	_ = l.cmd.Wait() // says that it was killed
	return errors.Join(err, os.RemoveAll(l.dir))
}

func (l *local) logs() string {
	b, _ := os.ReadFile(filepath.Join(l.dir, "log"))
	return string(bytes.TrimSpace(b[max(0, len(b)-16<<10):]))
}

// otherThanRoot returns whom PgBouncer, which refuses root, runs as; nil for the user who runs the test.
func otherThanRoot() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("it does not run as root, and there is no user postgres or nobody")
}
