package pgserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/test/images"
	"github.com/sqlstore/sqlstore/test/launch"
	"github.com/sqlstore/sqlstore/test/pgserver/guard"
)

const poolerPort = "6432/tcp"

// Pooler starts a PgBouncer in transaction mode before the server of a DSN that is a URL, and returns the DSN that leads through
// it. It is a container, or a process of the machine's pgbouncer where containers are not to be had, and ends with the test.
func Pooler(tb testing.TB, dsn string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal("pgserver: the server's DSN must be a URL, postgres://user@host/database")
	}
	addr, errContainer := poolerContainer(tb, dsn, u)
	if errContainer != nil {
		var errLocal error
		if addr, errLocal = poolerProcess(tb, u); errLocal != nil {
			tb.Fatalf("pgserver: there is no PgBouncer to test with: start Docker, or install it (Debian: 'apt-get install pgbouncer'):\n%v\n%v", errContainer, errLocal)
		}
	}
	u.Host = addr
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, u.String())
		if err == nil {
			_ = c.Close(ctx)
			return u.String()
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("pgserver: PgBouncer at %s: %v", addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func poolerContainer(tb testing.TB, dsn string, u *url.URL) (addr string, err error) {
	e, err := images.Find()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	image, err := images.PgBouncer(ctx, e)
	if err != nil {
		return "", err
	}
	bind, err := netip.ParseAddr(e.Bind)
	if err != nil {
		return "", err
	}
	if addr, err = launch.FreeAddress(); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(addr)
	host, serverPort, err := behindPort(ctx, dsn)
	if err != nil {
		return "", err
	}
	secret, _ := u.User.Password()
	name := uniqueName()
	if err := guard.Container(name); err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		if err := guard.RemoveContainer(context.Background(), e.Client.Client, name); err != nil {
			tb.Errorf("pgserver: remove PgBouncer: %v", err)
		}
	})
	_, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image: image, Name: name, ExposedPorts: []string{poolerPort},
			Env: map[string]string{
				"POSTGRES_HOST": host, "POSTGRES_PORT": serverPort, "POSTGRES_USER": u.User.Username(), "POSTGRES_PASSWORD": secret,
			},
			HostConfigModifier: func(h *dockercontainer.HostConfig) {
				h.PortBindings = network.PortMap{network.MustParsePort(poolerPort): {{HostIP: bind, HostPort: port}}}
			},
		},
		Started: true, Logger: tclog.NewNoopLogger(),
	})
	return net.JoinHostPort(e.Host, port), err
}

// behindPort is the server's own address, which another container reaches, unlike the port that is published on the loopback.
func behindPort(ctx context.Context, dsn string) (host, port string, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", "", err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, "SELECT host(inet_server_addr()), inet_server_port()::text").Scan(&host, &port)
	if ip := net.ParseIP(host); err == nil && (ip == nil || ip.IsLoopback()) {
		err = fmt.Errorf("the server at %s is out of a container's reach", host)
	}
	return host, port, err
}

// poolerProcess runs the machine's pgbouncer, as the user whom Postgres would run as.
func poolerProcess(tb testing.TB, u *url.URL) (addr string, err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in the PATH of all users
	}
	if addr, err = launch.FreeAddress(); err != nil {
		return "", err
	}
	host, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp("", "sqlstore-pgbouncer-") //nolint:usetesting // another user must reach it
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret, _ := u.User.Password()
	ini := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 20\nmax_client_conn = 1000\n",
		u.Hostname(), u.Port(), u.User.Username(), secret, host, port)
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(ini), 0o600); err != nil {
		return "", err
	}
	l := local{binaries: binaries{bin: filepath.Dir(program)}, dir: dir}
	if l.credentials, err = otherThanRoot(); err != nil {
		return "", err
	}
	if l.credentials != nil {
		for _, path := range []string{dir, config} {
			if err := os.Chown(path, int(l.credentials.Uid), int(l.credentials.Gid)); err != nil {
				return "", err
			}
		}
	}
	cmd := l.command(context.Background(), filepath.Base(program), config)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("log of PgBouncer:\n%s", log.String())
		}
	})
	return addr, nil
}
