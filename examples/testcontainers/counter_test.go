package testcontainers_test

import (
	"slices"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	counter "github.com/sqlstore/sqlstore/examples/testcontainers"
	"github.com/sqlstore/sqlstore/sqlstoretest/container"
)

// Clients that count at the same time get all numbers, each once. The image is sqlstore:dev, which `make image` builds,
// or the one that SQLSTORE_IMAGE names.
func TestIncrement(t *testing.T) {
	const clients, times = 4, 25
	store, err := container.Run(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupContainer(t, store)
	url, err := store.ClientURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	var numbers [clients][]int
	for i := range clients {
		group.Go(func() error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
			if err != nil {
				return err
			}
			defer client.Close()
			for range times {
				n, err := counter.Increment(t.Context(), client, "/counter")
				if err != nil {
					return err
				}
				numbers[i] = append(numbers[i], n)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(numbers[:]...)
	slices.Sort(all)
	for i, n := range all {
		if n != i+1 {
			t.Fatalf("the numbers are %v, want 1 to %d", all, clients*times)
		}
	}
}
