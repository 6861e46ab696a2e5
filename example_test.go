package sqlstore_test

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
)

// A temporary server on a free port, as tests of other programs need it.
func ExampleStart() {
	ctx := context.Background()
	server, err := sqlstore.Start(ctx, sqlstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if _, err := client.Put(ctx, "/registry/pods/default/nginx", "running"); err != nil {
		fmt.Println(err)
		return
	}
	res, err := client.Get(ctx, "/registry/pods/", clientv3.WithPrefix())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, kv := range res.Kvs {
		fmt.Printf("%s = %s (revision %d)\n", kv.Key, kv.Value, kv.ModRevision)
	}
	// Output: /registry/pods/default/nginx = running (revision 2)
}
