package containers

import (
	"testing"

	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/sqlstoretest/container"
)

// sqlstore's own module for testcontainers starts the image with the flags that it is given.
func TestLibrary(t *testing.T) {
	ctx := t.Context()
	c, err := container.Run(ctx, image(t), testcontainers.WithCmdArgs("--max-txn-ops=1"))
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.ClientURL(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(ctx, "k"); err != nil || got.Count != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := client.Txn(ctx).Then(clientv3.OpPut("a", ""), clientv3.OpPut("b", "")).Commit(); err == nil {
		t.Error("the flag had no effect")
	}
}
