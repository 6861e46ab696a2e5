package patroni

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/test/support/hosts"
	"github.com/sqlstore/sqlstore/test/support/images"
)

const (
	nodes, replicas = 3, 3

	etcdPort, postgresPort, restPort = "2379/tcp", "5432/tcp", "8008/tcp"
	// scope is Patroni's name for the cluster.
	scope = "sqlstore"
	// password is the same for all users.
	password = "of-this-test"

	// Patroni's times, in seconds: the minimum it accepts.
	ttl, loopWait, retryTimeout = "20", "1", "5"

	// stateTimeout limits what a test waits for; the actual time is reported.
	stateTimeout = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// cluster is Patroni's cluster, with its store and the replicas of sqlstore over it.
type cluster struct {
	testing.TB
	store    *hosts.Host
	nodes    []*hosts.Host
	replicas []*hosts.Host
}

// newCluster starts everything, with an empty database.
func newCluster(t *testing.T) *cluster {
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
	c := &cluster{TB: t}
	c.store = network.Start(t, hosts.Spec{
		Name: "dcs", Ports: []string{etcdPort}, Request: testcontainers.ContainerRequest{
			Image: images.Sqlstore(t), Cmd: serve("dcs", "--data-dir=/data"),
		},
	})
	for i := range nodes {
		c.nodes = append(c.nodes, network.Start(t, hosts.Spec{
			Name: fmt.Sprintf("pg%d", i+1), Ports: []string{postgresPort, restPort},
			Request: testcontainers.ContainerRequest{
				Image: image,
				Env: map[string]string{
					"ETCD_HOSTS": "dcs:2379", "POSTGRES_PASSWORD": password, "TTL": ttl, "LOOP_WAIT": loopWait,
					"RETRY_TIMEOUT": retryTimeout,
					"PATRONI_SCOPE": scope, "PATRONI_ETCD3_HOSTS": "dcs:2379", // for patronictl
				},
				HostConfigModifier: func(c *dockercontainer.HostConfig) { c.ShmSize = 128 << 20 },
			},
		}))
	}
	c.until("three healthy nodes, one standby synchronous", healthy)
	// Without a synchronous standby no write is acknowledged, so that no acknowledged write exists on only one server.
	// Without its store the primary stays primary as long as it reaches all other nodes.
	c.patronictl(c.nodes[0], "edit-config --force --set synchronous_mode_strict=true --set failsafe_mode=true")
	c.execute("CREATE ROLE sqlstore LOGIN PASSWORD '" + password + "'")
	c.execute("CREATE DATABASE sqlstore OWNER sqlstore")
	for i := range replicas {
		name := fmt.Sprintf("sqlstore-%d", i+1)
		c.replicas = append(c.replicas, network.Start(t, hosts.Spec{
			Name: name, Ports: []string{etcdPort}, Request: testcontainers.ContainerRequest{
				Image: images.Sqlstore(t), Env: map[string]string{"PGPASSWORD": password},
				Cmd: serve(name,
					"--datastore=postgres://sqlstore@pg1,pg2,pg3/sqlstore?target_session_attrs=read-write"),
			},
		}))
	}
	return c
}

func serve(name string, args ...string) []string {
	return append([]string{
		"serve", "--name=" + name, "--insecure-plaintext", "--listen-client-urls=http://0.0.0.0:2379",
		"--advertise-client-urls=http://" + name + ":2379",
	}, args...)
}

// node returns the node of a name.
func (c *cluster) node(name string) *hosts.Host {
	i := slices.IndexFunc(c.nodes, func(m *hosts.Host) bool { return m.Name == name })
	if i < 0 {
		c.Fatalf("there is no node %q", name)
	}
	return c.nodes[i]
}

// kill kills a host as a power cut would; Start starts it again.
func (c *cluster) kill(h *hosts.Host) {
	_, err := h.End("KILL")
	c.ok(err)
}

// patronictl runs a patronictl command on a node.
func (c *cluster) patronictl(m *hosts.Host, command string) string {
	c.Helper()
	out, err := m.Run("patronictl " + command)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// dsn names a database on the node that accepts writes, as the test reaches it.
func (c *cluster) dsn(database string) string {
	var hosts []string
	for _, m := range c.nodes {
		hosts = append(hosts, m.Address(postgresPort))
	}
	return "postgres://postgres:" + password + "@" + strings.Join(hosts,
		",") + "/" + database + "?target_session_attrs=read-write"
}

// connect connects to the node that accepts writes.
func (c *cluster) connect(ctx context.Context, database string) *pgx.Conn {
	c.Helper()
	conn, err := pgx.Connect(ctx, c.dsn(database))
	if err != nil {
		c.Fatal(err)
	}
	return conn
}

func (c *cluster) execute(sql string) {
	c.Helper()
	conn := c.connect(c.Context(), "postgres")
	defer conn.Close(c.Context())
	if _, err := conn.Exec(c.Context(), sql); err != nil {
		c.Fatal(err)
	}
}

// client connects to replicas, or to Patroni's store.
func (c *cluster) client(machines ...*hosts.Host) *clientv3.Client {
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

// member is a node as Patroni describes it.
type member struct {
	Name, Role, State string
	Timeline          any
}

type members []member

// with returns the name of the one running member with a role, "" unless there is exactly one.
func (ms members) with(role string) string {
	var names []string
	for _, m := range ms {
		if m.Role == role && (m.State == "running" || m.State == "streaming") {
			names = append(names, m.Name)
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}

// healthy reports whether all nodes run, on one timeline, with one synchronous standby.
func healthy(ms members) bool {
	for _, m := range ms {
		if m.Timeline != ms[0].Timeline {
			return false
		}
	}
	return len(ms) == nodes && ms.with("leader") != "" && ms.with("sync_standby") != "" && ms.with("replica") != ""
}

// eventually waits until reached returns nil, and fails the test after stateTimeout.
func eventually(tb testing.TB, state string, reached func() error) {
	tb.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.After(stateTimeout); ; {
		err := reached()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			tb.Fatalf("no %s within %v: %v", state, stateTimeout, err)
		}
	}
}

// until waits until Patroni reports a state, on every node that runs.
func (c *cluster) until(state string, reached func(members) bool) (now members) {
	c.Helper()
	eventually(c, state, func() error {
		told := c.members()
		if len(told) == 0 || slices.ContainsFunc(told, func(ms members) bool { return !reached(ms) }) {
			return fmt.Errorf("nodes report %+v", told)
		}
		now = told[0]
		return nil
	})
	return now
}

// members returns what each responding node reports of the cluster.
func (c *cluster) members() (all []members) {
	for _, m := range c.nodes {
		var answer struct{ Members members }
		if err := getJSON(c.Context(), "http://"+m.Address(restPort)+"/cluster", &answer); err == nil {
			all = append(all, answer.Members)
		}
	}
	return all
}

func getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}
