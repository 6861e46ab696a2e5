package rig

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

const (
	postgresVersion = "15"
	postgresPort    = "5432/tcp"
	superuser       = "postgres"
	owner           = "sqlstore"
	password        = "s3cret-of-the-cluster"
	standbyName     = "standby"
	// stepTimeout limits each wait for a server, attemptTimeout one attempt to connect and query.
	stepTimeout    = time.Minute
	attemptTimeout = 3 * time.Second
	pollInterval   = 20 * time.Millisecond
)

// Networks are the two networks that every host of a cluster is on.
type Networks struct{ private, public *hosts.Network }

// start starts a host on both networks: databases and replicas communicate over the private one, from which CutOff
// disconnects them.
func (n Networks) start(tb testing.TB, name string, req testcontainers.ContainerRequest, ports ...string) *hosts.Host {
	tb.Helper()
	return n.private.Start(tb, hosts.Spec{Name: name, Request: req, Ports: ports, Public: n.public})
}

// Postgres is a Postgres server.
type Postgres struct{ *hosts.Host }

// Databases is a primary, pg1, with a standby, pg2, that follows it.
type Databases struct {
	Networks
	Primary, Standby *Postgres
}

// NewDatabases starts a primary, and a standby that every commit waits for.
func NewDatabases(tb testing.TB) *Databases {
	tb.Helper()
	e, err := images.Find()
	if err != nil {
		tb.Fatalf("these tests need a container engine, such as Docker: %v", err)
	}
	net := Networks{private: hosts.NewNetwork(tb, e, true), public: hosts.NewNetwork(tb, e, false)}
	d := &Databases{Networks: net}
	d.Primary = newPostgres(tb, e, net, "pg1", "")
	if err := d.Primary.until(tb.Context(), "SELECT true"); err != nil {
		tb.Fatal(err)
	}
	if err := d.Primary.Execute("CREATE ROLE " + owner + " LOGIN PASSWORD '" + password + "'"); err != nil {
		tb.Fatal(err)
	}
	d.Standby = newPostgres(tb, e, net, "pg2", fmt.Sprintf("host=pg1 user=%s password=%s application_name=%s",
		superuser, password, standbyName))
	// Not before the standby exists: it would copy the setting, and after its promotion wait for a standby of its own.
	if err := d.Standby.Until("SELECT pg_is_in_recovery()"); err != nil {
		tb.Fatal(err)
	}
	if err := d.Synchronous(true); err != nil {
		tb.Fatal(err)
	}
	return d
}

func newPostgres(tb testing.TB, e *images.Engine, net Networks, name, follows string) *Postgres {
	tb.Helper()
	ref, err := images.Postgres(tb.Context(), e, postgresVersion)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := []string{"bash", "-c", images.PostgresEntrypoint, "entrypoint", "postgres", "-c", "listen_addresses=*"}
	return &Postgres{net.start(tb, name, testcontainers.ContainerRequest{
		Image: ref,
		Env: map[string]string{
			"POSTGRES_USER": superuser, "POSTGRES_PASSWORD": password,
			"PRIMARY_CONNINFO": follows,
		},
		ConfigModifier: func(c *dockercontainer.Config) {
			c.User, c.Entrypoint, c.Cmd = "postgres", cmd[:1], cmd[1:]
		},
		HostConfigModifier: func(c *dockercontainer.HostConfig) { c.ShmSize = 256 << 20 },
	}, postgresPort)}
}

// Synchronous sets whether commits wait for the standby, and waits until the setting is in effect.
func (d *Databases) Synchronous(on bool) error {
	names, state := standbyName, "sync"
	if !on {
		names, state = "", "async"
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	// Not before the standby streams: commits would wait for it.
	if err := d.Primary.until(ctx,
		"SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'"); err != nil {
		return err
	}
	if err := d.Primary.Execute("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'"); err != nil {
		return err
	}
	if err := d.Primary.Execute("SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return d.Primary.until(ctx, "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = '"+state+"'")
}

// Promote makes a standby the primary, and waits until it is.
func (p *Postgres) Promote() error {
	if err := p.Execute("SELECT pg_promote(false)"); err != nil {
		return err
	}
	return p.Until("SELECT NOT pg_is_in_recovery()")
}

// DSN returns the DSN with which the test connects to one of the server's databases, as the superuser.
func (p *Postgres) DSN(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, password), Host: p.Address(postgresPort),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Connect connects the test to one of the server's databases, as the superuser.
func (p *Postgres) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.DSN(database))
}

// Execute runs one statement.
func (p *Postgres) Execute(statement string) error {
	return p.Step("ask", func(ctx context.Context) error {
		conn, err := p.Connect(ctx, "postgres")
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		return err
	})
}

// Until repeats a query until it returns true.
func (p *Postgres) Until(query string) error {
	return p.Step("wait for", func(ctx context.Context) error { return p.until(ctx, query) })
}

// until queries over new connections, as the server may not be up yet.
func (p *Postgres) until(ctx context.Context, query string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		ok, err := p.ask(ctx, query)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not become true: %w, %w", query, ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

func (p *Postgres) ask(ctx context.Context, query string) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	conn, err := p.Connect(ctx, "postgres")
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, query).Scan(&ok)
	return ok, err
}
