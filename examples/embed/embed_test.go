package main

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/examples/internal/program"
)

// The program serves, ends with status 0, and has its data when it starts again.
func TestEmbed(t *testing.T) {
	path, dir := program.Build(t), t.TempDir()
	for _, already := range []int64{0, 1} {
		p := program.Start(t, dir, path)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Await(t, "serving ")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		if got, err := client.Get(t.Context(), "key"); err != nil || got.Count != already {
			t.Fatalf("%v, %v, want %d keys", got, err, already)
		}
		if _, err := client.Put(t.Context(), "key", "value"); err != nil {
			t.Fatal(err)
		}
		p.Stop(t)
	}
}
