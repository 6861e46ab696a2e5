package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

const (
	postgresUser     = "postgres"
	postgresPassword = "bench"
)

var errNoBinaries = errors.New("no Postgres binaries, neither in PATH nor in /usr/lib/postgresql/*/bin")

// postgresBinaries returns the directory of the machine's Postgres programs: those of SQLSTORE_TEST_POSTGRES_VERSION,
// otherwise the newest version of Debian's packages, otherwise those in PATH.
func postgresBinaries() (string, error) {
	version := env.PostgresVersion.Text()
	if version == "" {
		version = "*"
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/" + version + "/bin/initdb")
	if err != nil {
		return "", err
	}
	slices.Sort(dirs)
	if len(dirs) > 0 {
		return filepath.Dir(dirs[len(dirs)-1]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil && version == "*" {
		return filepath.Dir(path), nil
	}
	return "", errNoBinaries
}

// localPostgres makes a cluster in dir and starts a server on it.
func localPostgres(dir string) (*postgres, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	as, err := launch.OtherThanRoot()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	pwfile := filepath.Join(dir, "password")
	if err := os.WriteFile(pwfile, []byte(postgresPassword+"\n"), 0o644); err != nil { // for the other user to read
		return nil, err
	}
	data := filepath.Join(dir, "data")
	init := exec.Command(filepath.Join(bin, "initdb"), "--pgdata="+data, "--username="+postgresUser, "--pwfile="+pwfile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	init.Dir = "/"
	init.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a cluster in %s, which must be reachable for Postgres's user: %w\n%s",
			dir, err, out)
	}
	port := freePort()
	server, err := startProcess(filepath.Join(bin, "postgres"),
		[]string{
			"-D", data, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + port, "-c",
			"unix_socket_directories=",
		}, as)
	if err != nil {
		return nil, err
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, postgresPassword), Host: "127.0.0.1:" + port,
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	p := &postgres{dsn: u.String(), from: bin}
	p.remove = func() error {
		if p.tree != 0 {
			_ = p.resume()
		}
		return errors.Join(server.stop(syscall.SIGQUIT), os.RemoveAll(dir))
	}
	return p, nil
}
