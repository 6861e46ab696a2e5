package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

const (
	clientPort   = "2379/tcp"
	metricsPort  = "8080/tcp"
	passwordFile = "/database-password"
)

// Replica is a sqlstore server over the databases.
type Replica struct{ *hosts.Host }

// Cluster is a set of replicas over one database.
type Cluster struct {
	*Databases
	Database string
	Replicas []*Replica
}

// Options are further settings of a cluster's replicas.
type Options struct {
	// Flags are further flags of all replicas.
	Flags []string
	// Aside makes the first replica connect to the primary over the public network, so that it still does when the
	// primary is cut off.
	Aside bool
}

// NewCluster creates an empty database and starts n replicas over it, r1, r2 and so on. They start concurrently, so
// that they race to create the tables. They end with the test.
func (d *Databases) NewCluster(tb testing.TB, n int, o Options) *Cluster {
	tb.Helper()
	c := &Cluster{Databases: d, Database: strings.ReplaceAll(hosts.UniqueName(), "-", "_")}
	if err := d.Primary.Execute("CREATE DATABASE " + c.Database + " OWNER " + owner); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		primary := c.Primary.Name
		if o.Aside && i == 0 {
			primary = hosts.Aside(primary)
		}
		c.Replicas = append(c.Replicas, c.start(tb, fmt.Sprintf("r%d", i+1), primary, o.Flags))
	}
	for _, r := range c.Replicas {
		if err := r.Ready(); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// DSN returns a replica's DSN of the database, on whichever server accepts writes.
func (c *Cluster) DSN() string { return c.dsn(c.Primary.Name) }

func (c *Cluster) dsn(primary string) string {
	hosts := net.JoinHostPort(primary, "5432") + ",pg2:5432"
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", owner, hosts, c.Database)
}

func datastore(dsn string) []string {
	return []string{"--datastore", dsn, "--datastore-password-file", passwordFile}
}

func (c *Cluster) request(tb testing.TB, args ...string) testcontainers.ContainerRequest {
	tb.Helper()
	return testcontainers.ContainerRequest{
		Image: images.Sqlstore(tb),
		Cmd:   args,
		Files: []testcontainers.ContainerFile{{
			Reader:            strings.NewReader(password + "\n"),
			ContainerFilePath: passwordFile, FileMode: 0o444,
		}},
	}
}

func (c *Cluster) start(tb testing.TB, name, primary string, flags []string) *Replica {
	tb.Helper()
	req := c.request(tb, slices.Concat([]string{
		"serve", "--name", name,
		"--insecure-plaintext", "--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls",
		"http://" + name + ":2379", "--listen-metrics-urls", "http://0.0.0.0:8080",
	}, datastore(c.dsn(primary)), flags)...)
	return &Replica{c.Networks.start(tb, name, req, clientPort, metricsPort)}
}

// Run runs a sqlstore subcommand that takes the database's flags, such as `sqlstore repair`, and returns its output and
// exit status.
func (c *Cluster) Run(tb testing.TB, args ...string) (string, int64) {
	tb.Helper()
	h := c.Networks.start(tb, "command", c.request(tb, append(args, datastore(c.DSN())...)...))
	status, err := h.Wait()
	if err != nil {
		tb.Fatal(err)
	}
	return h.Log("all"), status
}

// Endpoint returns the HOST:PORT at which the test's clients reach the replica.
func (r *Replica) Endpoint() string { return r.Address(clientPort) }

// Ready waits until the replica reports that it is ready.
func (r *Replica) Ready() error { return r.WaitReady(http.StatusOK) }

// WaitReady waits until /readyz has a status.
func (r *Replica) WaitReady(want int) error {
	return r.Step("wait for /readyz of", func(ctx context.Context) error {
		for {
			status, body, err := r.readyz(ctx)
			if err == nil && status == want {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("it has status %d (%s), want %d: %w, %w", status, body, want, ctx.Err(), err)
			case <-time.After(pollInterval):
			}
		}
	})
}

func (r *Replica) readyz(ctx context.Context) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Address(metricsPort)+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(b)), err
}
