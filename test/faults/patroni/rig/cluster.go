package rig

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

const (
	// Nodes is the number of Postgres servers.
	Nodes = 3
	// Replicas is the number of sqlstore's replicas.
	Replicas = 3
	// Scope is Patroni's name for the cluster.
	Scope = "sqlstore"
	// StateTimeout limits what a test waits for; the actual time is reported.
	StateTimeout = 2 * time.Minute

	etcdPort, postgresPort, restPort = "2379/tcp", "5432/tcp", "8008/tcp"
	// password is the same for all users.
	password = "of-this-test"

	// Patroni's times, in seconds: the minimum it accepts.
	ttl, loopWait, retryTimeout = "20", "1", "5"

	pollInterval = 100 * time.Millisecond
)

// Cluster is Patroni's cluster, with its store and the replicas of sqlstore over it.
type Cluster struct {
	testing.TB
	Store    *hosts.Host
	Nodes    []*hosts.Host
	Replicas []*hosts.Host
}

// Options are further settings of a cluster.
type Options struct {
	// Breakable gives every node its own small disk, clock and firewall: [FillDisk], [StepClock] and [Cut] need it.
	Breakable bool
	// Binary is the sqlstore that the replicas run, nil for the image's.
	Binary []byte
}

// New starts a cluster with an empty database.
func New(t *testing.T, o Options) *Cluster {
	engine, err := images.Find()
	if err != nil {
		t.Fatalf("this test needs a container engine: start Docker, or see package images for where it looks: %v",
			err)
	}
	network := hosts.NewNetwork(t, engine, false)
	image, err := images.Patroni(t.Context(), engine)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{TB: t}
	c.Store = network.Start(t, hosts.Spec{
		Name: "dcs", Ports: []string{etcdPort}, Request: testcontainers.ContainerRequest{
			Image: images.Sqlstore(t), Cmd: serve("dcs", "--data-dir=/data"),
		},
	})
	for i := range Nodes {
		name := fmt.Sprintf("pg%d", i+1)
		request := node(image)
		if o.Breakable {
			request = breakable(t, network, name, request)
		}
		c.Nodes = append(c.Nodes, network.Start(t, hosts.Spec{
			Name: name, Ports: []string{postgresPort, restPort}, Request: request,
		}))
	}
	c.Until("three healthy nodes, one standby synchronous", Healthy)
	// Without a synchronous standby no write is acknowledged, so that no acknowledged write exists on only one server.
	// Without its store the primary stays primary as long as it reaches all other nodes.
	c.Patronictl(c.Nodes[0], "edit-config --force --set synchronous_mode_strict=true --set failsafe_mode=true")
	if o.Breakable {
		c.limitWAL()
	}
	c.Execute("CREATE ROLE sqlstore LOGIN PASSWORD '" + password + "'")
	c.Execute("CREATE DATABASE sqlstore OWNER sqlstore")
	for i := range Replicas {
		c.Replicas = append(c.Replicas, network.Start(t, hosts.Spec{
			Name: replicaName(i), Ports: []string{etcdPort}, Request: replica(t, replicaName(i), o.Binary),
		}))
	}
	return c
}

func node(image string) testcontainers.ContainerRequest {
	return testcontainers.ContainerRequest{
		Image: image,
		Env: map[string]string{
			"ETCD_HOSTS": "dcs:2379", "POSTGRES_PASSWORD": password, "TTL": ttl, "LOOP_WAIT": loopWait,
			"RETRY_TIMEOUT": retryTimeout,
			"PATRONI_SCOPE": Scope, "PATRONI_ETCD3_HOSTS": "dcs:2379", // for patronictl
		},
		HostConfigModifier: func(c *dockercontainer.HostConfig) { c.ShmSize = 128 << 20 },
	}
}

func replicaName(i int) string { return fmt.Sprintf("sqlstore-%d", i+1) }

func replica(tb testing.TB, name string, binary []byte) testcontainers.ContainerRequest {
	tb.Helper()
	r := testcontainers.ContainerRequest{
		Image: images.Sqlstore(tb), Env: map[string]string{"PGPASSWORD": password},
		Cmd: serve(name, "--datastore=postgres://sqlstore@pg1,pg2,pg3/sqlstore?target_session_attrs=read-write"),
	}
	if binary != nil {
		r.Files = []testcontainers.ContainerFile{{
			Reader: bytes.NewReader(binary), ContainerFilePath: binaryPath, FileMode: binaryMode,
		}}
	}
	return r
}

func serve(name string, args ...string) []string {
	return append([]string{
		"serve", "--name=" + name, "--insecure-plaintext", "--listen-client-urls=http://0.0.0.0:2379",
		"--advertise-client-urls=http://" + name + ":2379",
	}, args...)
}

// Node returns the node with a name.
func (c *Cluster) Node(name string) *hosts.Host {
	i := slices.IndexFunc(c.Nodes, func(m *hosts.Host) bool { return m.Name == name })
	if i < 0 {
		c.Fatalf("there is no node %q", name)
	}
	return c.Nodes[i]
}

// Kill kills a host as a power cut would; Start starts it again.
func (c *Cluster) Kill(h *hosts.Host) {
	_, err := h.End("KILL")
	c.OK(err)
}

// Patronictl runs a patronictl command on a node.
func (c *Cluster) Patronictl(m *hosts.Host, command string) string {
	c.Helper()
	out, err := m.Run("patronictl " + command)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// DSN names a database on the node that accepts writes, as the test reaches it.
func (c *Cluster) DSN(database string) string {
	var hosts []string
	for _, m := range c.Nodes {
		hosts = append(hosts, m.Address(postgresPort))
	}
	return "postgres://postgres:" + password + "@" + strings.Join(hosts,
		",") + "/" + database + "?target_session_attrs=read-write"
}

// Connect connects to the node that accepts writes.
func (c *Cluster) Connect(ctx context.Context, database string) *pgx.Conn {
	c.Helper()
	conn, err := pgx.Connect(ctx, c.DSN(database))
	if err != nil {
		c.Fatal(err)
	}
	return conn
}

// Execute runs a statement on the node that accepts writes.
func (c *Cluster) Execute(sql string) {
	c.Helper()
	conn := c.Connect(c.Context(), "postgres")
	defer conn.Close(c.Context())
	if _, err := conn.Exec(c.Context(), sql); err != nil {
		c.Fatal(err)
	}
}

// Client connects to replicas, or to Patroni's store.
func (c *Cluster) Client(machines ...*hosts.Host) *clientv3.Client {
	c.Helper()
	var endpoints []string
	for _, m := range machines {
		endpoints = append(endpoints, m.Address(etcdPort))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { client.Close() })
	return client
}

// Endpoint returns the HOST:PORT at which clients reach a replica, or Patroni's store.
func Endpoint(h *hosts.Host) string { return h.Address(etcdPort) }

// OK ends the test if a step failed.
func (c *Cluster) OK(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}
