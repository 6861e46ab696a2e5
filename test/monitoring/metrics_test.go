package monitoring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/support/dashboard"
)

// absent are the panels that show nothing over a database, each with the reason.
var absent = map[string]map[string]string{
	"sqlite": {
		"Replica lag":                 "a SQLite file has one server",
		"Connections to the database": "SQLite is a library",
	},
	"postgres": {"Free disk": "the disk is that of Postgres, on another machine perhaps"},
}

// serve starts servers that have everything that metrics are about: SQLite, and two replicas over Postgres.
func serve(t *testing.T) map[string]store {
	t.Helper()
	dir := t.TempDir()
	cert, key := authority.New(t).Issue("sqlstore")
	authority.Write(t, dir+"/server.crt", cert)
	authority.Write(t, dir+"/server.key", key)
	with := func(args ...string) *launch.Server {
		return launch.Start(t, launch.Config{Objects: true, Args: append([]string{
			"--cert-file", dir + "/server.crt", "--key-file", dir + "/server.key", "--auto-compaction-mode=revision",
			"--auto-compaction-retention=10",
		}, args...)})
	}
	dsn := pgserver.Database(t)
	replica := func(name string) *launch.Server {
		return with("--datastore", dsn, "--name", name, "--backup-to", dir+"/postgres", "--quota-backend-bytes",
			"1000000000")
	}
	return map[string]store{
		"sqlite":   {with("--backup-to", dir+"/sqlite", "--audit-log", dir+"/audit")},
		"postgres": {replica("a"), replica("b")},
	}
}

// Servers under load export every metric and label that the rules, the dashboard and docs/observe.md name. Only that
// page, which says so, needs --metrics extensive. A Prometheus has data for every panel of the dashboard from either
// database, unless the panel is about the other one.
func TestLoaded(t *testing.T) {
	stores, extensive := serve(t), launch.Start(t, launch.Config{Args: []string{"--metrics", "extensive"}})
	load(t, extensive)
	prometheus := start(t, stores)
	prometheus.AwaitServers(t, 3)
	all := prometheus.Choose(t)
	if len(all["instance"]) != 3 {
		t.Errorf("the dashboard offers %v, want three servers", all)
	}
	for name, s := range stores {
		choice := dashboard.Choice{"job": all["job"], "instance": s.instances()}
		t.Run("panels/"+name, func(t *testing.T) {
			prometheus.Healthy(t, choice, absent[name], func() {
				for _, server := range s { // again and again: a counter has a rate from its second sample on
					load(t, server)
				}
			})
		})
	}
	t.Run("metrics", func(t *testing.T) { exported(t, slices.Concat(stores["sqlite"], stores["postgres"]), extensive) })
	for name, s := range stores {
		choice := dashboard.Choice{"job": all["job"], "instance": s.instances()}
		t.Run("faults/"+name, func(t *testing.T) { faulty(t, prometheus, s, choice) })
	}
}

// faulty tests the panels that show faults, over servers that have an alarm.
func faulty(t *testing.T, prometheus *dashboard.Prometheus, s store, choice dashboard.Choice) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s[0].Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	faults := slices.DeleteFunc(dashboard.Targets(t), func(target dashboard.Target) bool { return !target.Fault() })
	prometheus.Await(t, faults, choice, func() {
		if _, err := client.Put(t.Context(), "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("put with an alarm: %v", err)
		}
	})
}

// exported tests that servers under load export what is named.
func exported(t *testing.T, servers store, extensive *launch.Server) {
	t.Helper()
	all, table := slices.Concat(rules(t), panels(t), variables(t)), mixin(t)
	if len(all) < 60 {
		t.Fatalf("only %d expressions", len(all))
	}
	// What the compactor and the backups export follows their first work, which gives no signal.
	tick, end := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		found := series{}
		for _, s := range servers {
			found.scrape(t, s)
		}
		missing := missing(found, all)
		found.scrape(t, extensive)
		missing = append(missing, wrong(found, table)...)
		if len(missing) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			for _, m := range missing {
				t.Error(m)
			}
			return
		}
	}
}

// missing says which expressions name what no server exports.
func missing(found series, all []expression) (lines []string) {
	recorded := map[string]string{}
	for _, e := range all {
		if e.record != "" {
			recorded[e.record] = selectors(e.text, nil)[0].metric
		}
	}
	for i := range all {
		if lacks := found.lacks(&all[i], recorded); lacks != "" {
			lines = append(lines, fmt.Sprintf("%s: no server has %s", all[i].where, lacks))
		}
	}
	return lines
}

// load makes a server serve each kind of request: reads, writes, a watch, a lease and a compaction.
func load(t *testing.T, server *launch.Server) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := client.Watch(ctx, "k", clientv3.WithPrefix())
	lease, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := client.Put(ctx, fmt.Sprint("k", i%5), "v", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Get(ctx, "k", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	put, err := client.Txn(ctx).Then(clientv3.OpPut("k", "v"), clientv3.OpDelete("k0")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	for seen := int64(0); seen < put.Header.Revision; {
		response, ok := <-events
		if !ok {
			t.Fatalf("the watch ended at revision %d, before %d", seen, put.Header.Revision)
		}
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		seen = response.Header.Revision
	}
	if _, err := client.Compact(ctx, put.Header.Revision); err != nil {
		t.Fatal(err)
	}
}
