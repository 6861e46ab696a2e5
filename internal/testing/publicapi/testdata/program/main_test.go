package main

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/sqlstoretest"
)

func TestWithServer(t *testing.T) {
	s := sqlstoretest.Start(t, func(c *sqlstore.Config) { c.Name = "test" })
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}
