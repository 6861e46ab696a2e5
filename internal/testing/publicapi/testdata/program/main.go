// Command program embeds sqlstore through its public API only.
package main

import (
	"context"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// server is the program's own record of what it runs: it can name each type.
type server struct {
	*sqlstore.Server
	tls       sqlstore.TLSFiles
	status    sqlstore.Status
	condition sqlstore.Condition
}

func run(ctx context.Context) (err error) {
	var s server
	s.Server, err = sqlstore.Start(ctx, sqlstore.Config{TLS: s.tls})
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Put(ctx, "key", "value"); err != nil {
		return err
	}
	reload := sqlstore.Reload{
		TLS: s.tls, Compaction: compactor.Config{Mode: compactor.Periodic, Retention: "1h"},
	}
	if err := s.Reload(reload); err != nil {
		return err
	}
	s.status = s.Status(ctx)
	for _, s.condition = range s.status.Conditions {
		if s.condition.Type == "Ready" {
			fmt.Printf("Ready is %s at revision %d\n", s.condition.Status, s.status.Revision)
		}
	}
	return s.Alive(ctx)
}
