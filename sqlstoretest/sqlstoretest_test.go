package sqlstoretest_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/sqlstoretest"
)

// A test of a program that talks to etcd.
func Example() {
	testProgram := func(t *testing.T) {
		server := sqlstoretest.Start(t, func(c *sqlstore.Config) {
			c.WatchProgressInterval = time.Second // options set what the program has to cope with
		})
		client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Put(t.Context(), "key", "value"); err != nil {
			t.Fatal(err)
		}
	}
	_ = testProgram // go test runs it
}

func TestStart(t *testing.T) {
	var ended *clientv3.Client
	t.Run("a test", func(t *testing.T) {
		one := sqlstoretest.Start(t)
		two := sqlstoretest.Start(t, func(c *sqlstore.Config) { c.Name, c.MaxTxnOps = "two", 1 })
		ctx := t.Context()
		clients := make([]*clientv3.Client, 2)
		for i, s := range []*sqlstore.Server{one, two} {
			c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			clients[i], ended = c, c
		}
		if _, err := clients[0].Put(ctx, "k", "v"); err != nil {
			t.Fatal(err)
		}
		if got, err := clients[1].Get(ctx, "k"); err != nil || got.Count != 0 {
			t.Errorf("one server's key on the other: %v, %v", got, err)
		}
		ops := []clientv3.Op{clientv3.OpPut("a", ""), clientv3.OpPut("b", "")}
		if _, err := clients[1].Txn(ctx).Then(ops...).Commit(); err == nil {
			t.Error("the option had no effect")
		}
	})
	if _, err := ended.Get(t.Context(), "k"); err == nil {
		t.Error("the server outlives its test")
	}
}
