package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/support/datastore"
	"github.com/sqlstore/sqlstore/test/support/durability"
)

func TestKill(t *testing.T) {
	kills, seed := env.Length.Count(t, 5), env.Seed.Uint(t, rand.Uint64())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	replicas := servers.Targets(t)
	endpoints := datastore.Endpoints(replicas)
	r := durability.New()
	for i, prefix := range []string{"", "t/", "l/"} {
		if err := r.Watch(t.Context(), endpoints[i%len(endpoints)], prefix); err != nil {
			t.Fatal(err)
		}
	}

	for round := range kills {
		before := r.Rev
		victim := replicas[random.IntN(len(replicas))]
		ctx, cancel := context.WithCancel(t.Context())
		killed := make(chan error, 1)
		moment := time.After(time.Duration(random.IntN(400)) * time.Millisecond)
		go func() {
			defer cancel()
			<-moment
			killed <- kill(ctx, victim, len(replicas) > 1, r)
		}()
		err := durability.Load{Endpoints: endpoints, Seed: random.Uint64()}.Run(ctx, r)
		if err := errors.Join(err, <-killed); err != nil {
			t.Fatalf("round %d: under load: %v", round, err)
		}
		if len(replicas) == 1 {
			victim.Restart(t)
		}
		if random.IntN(5) == 0 { // a crash right after a start, with nothing new written
			victim.Kill()
			victim.Restart(t)
		}
		check(t, endpoints[random.IntN(len(endpoints))], r)
		if t.Failed() {
			t.Fatalf("round %d of %d, seed %d", round, kills, seed)
		}
		t.Logf("round %d: revisions %d to %d, %d keys", round, before, r.Rev, len(r.Base))
		if random.IntN(4) == 0 {
			compact(t, endpoints[random.IntN(len(endpoints))], r.Rev-int64(random.IntN(2)))
		}
	}
	if r.Rev < int64(kills)*10 {
		t.Errorf("only %d revisions in %d rounds: too little load to mean anything", r.Rev, kills)
	}
}

// kill kills a server under load. The remaining replicas continue without it; then it restarts.
func kill(ctx context.Context, victim *launch.Server, others bool, r *durability.Record) error {
	victim.Kill()
	if !others {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.AwaitMore(ctx, 100); err != nil {
		return fmt.Errorf("with one replica killed: %w", err)
	}
	return victim.TryRestart()
}

func check(t *testing.T, endpoint string, r *durability.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Verify(ctx, endpoint); err != nil {
		t.Error(err)
	}
}

// compact drops history that has been checked, so that some kills happen during a purge.
func compact(t *testing.T, endpoint string, rev int64) {
	t.Helper()
	if _, err := pb.NewKVClient(dial(t, endpoint)).Compact(t.Context(), &pb.CompactionRequest{
		Revision: rev,
	}); err != nil {
		t.Logf("compact %d: %v", rev, err) // already compacted there if little was written since
	}
}

func dial(t *testing.T, endpoint string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get returns the body of a path on the server's HTTP listener, whatever the status.
func get(t *testing.T, server *launch.Server, path string) string {
	t.Helper()
	resp, err := http.Get(server.MetricsURL() + path) //nolint:noctx // a test's own loopback server
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
