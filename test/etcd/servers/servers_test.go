package servers_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Both servers start, keep their data across a crash, and exit when asked to.
func TestStartKillRestartStop(t *testing.T) {
	t.Run("etcd", func(t *testing.T) { startKillRestart(t, servers.Etcd(t)) })
	t.Run("target", func(t *testing.T) {
		server := servers.Target(t)
		startKillRestart(t, server)
		// When etcd is done it sends itself the signal again, and so dies of it.
		if err := server.Stop(); err != nil && !servers.TargetIsEtcd() {
			t.Errorf("stop: %v", err)
		}
	})
}

func startKillRestart(t *testing.T, server *launch.Server) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	put, err := client.Put(ctx, "k", "v")
	if err != nil {
		t.Fatal(err)
	}

	first := server.PID()
	server.Kill()
	server.Restart(t)
	if server.PID() == first {
		t.Error("the process is still the first one")
	}
	got, err := client.Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Errorf("after the restart: got %v, want k at revision %d", got.Kvs, put.Header.Revision)
	}
}
