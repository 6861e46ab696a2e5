package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// local is a server that runs from the machine's binaries.
type local struct {
	binaries
	dir         string // holds data and log
	hostPort    string
	settings    []string
	pages       []string // arguments of initdb
	primary     string   // connection string of the server to follow, empty on a primary
	credentials *syscall.Credential
	why         error // why it is not a container
	ended       chan struct{}
}

func newLocal(o Options) (*local, error) {
	b, err := findBinaries(o.Version)
	if err != nil {
		return nil, err
	}
	l, err := b.local(o.Settings)
	if err == nil {
		l.pages = o.pages(b.version)
	}
	return l, err
}

// local makes a directory and an address for a server of these binaries.
func (b binaries) local(settings []string) (*local, error) {
	l := &local{binaries: b, settings: settings}
	var err error
	if l.hostPort, err = launch.FreeAddress(); err != nil {
		return nil, err
	}
	if l.credentials, err = launch.OtherThanRoot(); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp("", "sqlstore-postgres-"); err != nil {
		return nil, err
	}
	if l.credentials != nil {
		err = os.Chown(l.dir, int(l.credentials.Uid), int(l.credentials.Gid))
	}
	if err = errors.Join(err, guard.Server(l.dir)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	return l, nil
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

func (l *local) addr() string { return l.hostPort }

func (l *local) describe() string {
	s := fmt.Sprintf("Postgres %s of %s", l.version, l.bin)
	if l.why != nil {
		s += fmt.Sprintf(", as containers are unavailable (%v)", l.why)
	}
	return s
}

func (l *local) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, program), args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.credentials, Setsid: true}
	return cmd
}

// create makes the cluster, as a copy of the primary if there is one.
func (l *local) create(ctx context.Context) error {
	pwfile := filepath.Join(l.dir, "password")
	if err := os.WriteFile(pwfile, []byte(secret(l.version)+"\n"), 0o644); err != nil { // for the other user to read
		return err
	}
	cmd := l.command(ctx, "initdb", "--pgdata="+l.data(), "--username="+superuser, "--pwfile="+pwfile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-sync")
	cmd.Args = append(cmd.Args, l.pages...)
	if l.primary != "" {
		cmd = l.command(ctx, "pg_basebackup", "--pgdata="+l.data(), "--wal-method=stream", "--write-recovery-conf",
			"--checkpoint=fast", "--no-sync", "--dbname="+l.primary)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

func (l *local) start(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(l.data(), "PG_VERSION")); err != nil {
		if err := l.create(ctx); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(l.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	host, port, err := net.SplitHostPort(l.hostPort)
	if err != nil {
		return err
	}
	args := []string{
		"-D", l.data(), "-c", "listen_addresses=" + host, "-c", "port=" + port, "-c",
		"unix_socket_directories=",
	}
	for _, s := range l.settings {
		args = append(args, "-c", s)
	}
	// It outlives ctx.
	cmd := l.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	l.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

func (l *local) running(context.Context) bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// stop is a fast shutdown.
func (l *local) stop(ctx context.Context) error {
	pid := guard.Postmaster(l.dir)
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *local) kill(context.Context) error {
	guard.KillServer(l.dir)
	if l.ended != nil {
		<-l.ended
	}
	return nil
}

func (l *local) pause(context.Context) error   { return l.signal(syscall.SIGSTOP) }
func (l *local) unpause(context.Context) error { return l.signal(syscall.SIGCONT) }

// signal sends a signal to all of the server's processes; the first one first, because it could start others.
func (l *local) signal(sig syscall.Signal) error {
	pid := guard.Postmaster(l.dir)
	if pid == 0 {
		return errors.New("it does not run")
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return err
	}
	for _, child := range guard.Children(pid) {
		if err := syscall.Kill(child, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func (l *local) remove(ctx context.Context) error {
	_ = l.kill(ctx)
	return os.RemoveAll(l.dir)
}

func (l *local) logs(context.Context) string {
	b, _ := os.ReadFile(filepath.Join(l.dir, "log"))
	return string(bytes.TrimSpace(b[max(0, len(b)-64<<10):]))
}

func (l *local) standby(_ context.Context, name string) (node, error) {
	s, err := l.local(l.settings)
	if err != nil {
		return nil, err
	}
	s.why = l.why
	host, port, err := net.SplitHostPort(l.hostPort)
	if err != nil {
		return nil, err
	}
	s.primary = conninfo(host, port, name)
	return s, nil
}
