package container_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/sqlstoretest/container"
	"github.com/sqlstore/sqlstore/test/support/images"
)

// image returns the environment's image, otherwise one built from this checkout.
func image(t *testing.T) string {
	t.Helper()
	if name := os.Getenv(container.ImageVariable); name != "" {
		return name
	}
	const name = images.Prefix + "sqlstore:container"
	out, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "image.sh"),
		name).CombinedOutput()
	if err != nil {
		t.Fatalf("build the image: %v\n%s", err, out)
	}
	return name
}

// Example of a test of a program that talks to etcd, with sqlstore in a container.
func Example() {
	testProgram := func(t *testing.T) {
		ctx := t.Context()
		store, err := container.Run(ctx, "sqlstore:dev", testcontainers.WithCmdArgs("--max-txn-ops=16"))
		if err != nil {
			t.Fatal(err)
		}
		testcontainers.CleanupContainer(t, store)
		url, err := store.ClientURL(ctx)
		if err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
	}
	_ = testProgram // go test runs it
}

// Without a container engine, Run says so.
func TestRun(t *testing.T) {
	ctx := t.Context()
	if _, err := images.Find(); err != nil {
		_, err := container.Run(ctx, container.DefaultImage)
		if err == nil || !strings.Contains(err.Error(), "start sqlstore") {
			t.Errorf("without a container engine: %v", err)
		}
		return
	}
	c, err := container.Run(ctx, image(t), testcontainers.WithCmdArgs("--max-txn-ops=1"))
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.ClientURL(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(ctx, "k"); err != nil || got.Count != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := client.Txn(ctx).Then(clientv3.OpPut("a", ""), clientv3.OpPut("b", "")).Commit(); err == nil {
		t.Error("the flag had no effect")
	}
}
