package monitoring

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// Servers export every metric and label that the rules, the dashboard and docs/observe.md name. Only that page, which
// says so, needs --metrics extensive.
func TestMetricsExist(t *testing.T) {
	dir := t.TempDir()
	cert, key := authority.New(t).Issue("sqlstore")
	authority.Write(t, dir+"/server.crt", cert)
	authority.Write(t, dir+"/server.key", key)
	compacting := []string{"--auto-compaction-mode=revision", "--auto-compaction-retention=10"}
	dsn := pgserver.Database(t)
	servers := []*launch.Server{
		launch.Start(t, launch.Config{Objects: true, Args: append(compacting, "--cert-file", dir+"/server.crt",
			"--key-file", dir+"/server.key", "--backup-to", dir+"/backup", "--audit-log", dir+"/audit")}),
		launch.Start(t, launch.Config{Args: append(compacting, "--datastore", dsn, "--name", "a")}),
		launch.Start(t, launch.Config{Args: append(compacting, "--datastore", dsn, "--name", "b")}),
	}
	extensive := launch.Start(t, launch.Config{Args: []string{"--metrics", "extensive"}})
	for _, s := range append(servers, extensive) {
		load(t, s)
	}
	all, table := slices.Concat(rules(t), dashboard(t), variables(t)), mixin(t)
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
