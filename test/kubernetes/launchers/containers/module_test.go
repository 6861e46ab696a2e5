package containers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Programs that test with testcontainers' module for etcd only name another image.
func TestEtcdModule(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c, err := etcd.Run(ctx, image(t), etcd.WithAdditionalArgs("--auto-compaction-mode", "revision",
		"--auto-compaction-retention", "1000"))
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := c.ClientEndpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "foo", "bar"); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, c, "etcdctl", "get", "foo", "--print-value-only"); !strings.Contains(got, "bar") {
		t.Errorf("etcdctl in the container reads %q", got)
	}
}
