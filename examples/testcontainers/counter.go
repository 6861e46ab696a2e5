// Package testcontainers has a small program, a counter that many clients share, and a test of it that runs sqlstore in
// a container, for programs whose tests use testcontainers anyway. Without a container engine, use package
// sqlstoretest.
package testcontainers

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Increment adds one to the number in a key and returns the result.
func Increment(ctx context.Context, client *clientv3.Client, key string) (int, error) {
	for {
		got, err := client.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		number, revision := 0, int64(0)
		if len(got.Kvs) > 0 {
			if number, err = strconv.Atoi(string(got.Kvs[0].Value)); err != nil {
				return 0, fmt.Errorf("key %s is not a number: %w", key, err)
			}
			revision = got.Kvs[0].ModRevision
		}
		number++
		res, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, strconv.Itoa(number))).
			Commit()
		if err != nil {
			return 0, err
		}
		if res.Succeeded { // otherwise another client was faster
			return number, nil
		}
	}
}
