package sqlstoretest_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/sqlstoretest"
)

// The README shows this test.
func TestProgram(t *testing.T) {
	server := sqlstoretest.Start(t) // a temporary store on a free port, gone when the test ends
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
}
