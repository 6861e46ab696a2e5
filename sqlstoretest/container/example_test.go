package container_test

import (
	"testing"

	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/sqlstoretest/container"
)

// Example of a test of a program that talks to etcd, with sqlstore in a container.
func Example() {
	testProgram := func(t *testing.T) {
		ctx := t.Context()
		store, err := container.Run(ctx, "sqlstore:dev", testcontainers.WithCmdArgs("--max-txn-ops=16"))
		if err != nil {
			t.Fatal(err)
		}
		testcontainers.CleanupContainer(t, store)
		url, err := store.ClientURL(ctx)
		if err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
	}
	_ = testProgram // go test runs it
}
