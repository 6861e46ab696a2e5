// Command embed serves the etcd API from inside a program: it opens a store in the directory embed.sqlstore, serves it
// on a free port of the loopback interface, and stops at Ctrl-C.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/sqlstore/sqlstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := sqlstore.Start(ctx, sqlstore.Config{DataDir: "embed.sqlstore"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("serving", server.Endpoints()[0])
	select {
	case <-ctx.Done():
	case <-server.Done(): // the disk failed: it can acknowledge no more writes
		log.Print(server.Err())
	}
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
}
