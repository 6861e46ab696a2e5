// Command election runs any number of candidates of which one at a time leads, with the election of etcd's client:
//
//	go run ./election -name a -endpoint http://127.0.0.1:2379
//
// The leader writes its name to a key. Each write is on condition that it still leads: a leader that was frozen for
// longer than its session lasts, and does not know it, changes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	electionPrefix = "/example/election"
	workKey        = "/example/work"
)

func main() {
	name := flag.String("name", "", "name of the candidate; default its process id")
	endpoint := flag.String("endpoint", "http://127.0.0.1:2379", "URL of the store")
	ttl := flag.Int("ttl", 5, "seconds after which the others replace a leader that has vanished")
	flag.Parse()
	if *name == "" {
		*name = fmt.Sprint(os.Getpid())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *endpoint, *ttl); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run leads, works and, if it loses its session, begins anew.
func run(ctx context.Context, name, endpoint string, ttl int) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		if err := campaign(ctx, client, name, ttl); err != nil {
			return err
		}
	}
	return nil
}

// campaign waits until it leads, and works until it loses that, or ctx ends. Then it resigns, so that nobody has to
// wait for the end of its session.
func campaign(ctx context.Context, client *clientv3.Client, name string, ttl int) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer session.Close() // resigns: the candidate's key goes with its lease
	election := concurrency.NewElection(session, electionPrefix)
	if err := election.Campaign(ctx, name); err != nil {
		return err
	}
	fmt.Println(name, "leads")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := work(ctx, client, election, name); err != nil {
			fmt.Println(name, "does not lead any more:", err)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-session.Done():
			fmt.Println(name, "does not lead any more: its session ended")
			return nil
		case <-tick.C:
		}
	}
}

var errReplaced = errors.New("another candidate leads")

// work writes if the candidate's key is still the one with which it won.
func work(ctx context.Context, client *clientv3.Client, election *concurrency.Election, name string) error {
	res, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(election.Key()), "=", election.Rev())).
		Then(clientv3.OpPut(workKey, name)).
		Commit()
	if err == nil && !res.Succeeded {
		err = errReplaced
	}
	return err
}
