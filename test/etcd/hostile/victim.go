package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/launch"
)

// promptly is how soon a healthy server has answered, on a busy machine, too.
const promptly = 10 * time.Second

// victim is a server under attack and a connection to it that takes no part in the attacks.
type victim struct {
	*launch.Server
	kv pb.KVClient
}

func startVictim(t *testing.T, args ...string) victim {
	t.Helper()
	server := servers.Target(t, append(args, "--unsafe-no-fsync")...)
	return victim{server, pb.NewKVClient(dial(t, server.Endpoint()))}
}

func dial(t *testing.T, endpoint string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+endpoint, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// healthy checks that the server is still the same process and does its work.
func (v victim) healthy(t *testing.T) {
	t.Helper()
	select {
	case <-v.Exited():
		t.Fatal("the server has ended")
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	key := []byte("health")
	put, err := v.kv.Put(ctx, &pb.PutRequest{Key: key, Value: key})
	if err != nil {
		t.Fatalf("put after the attack: %v", err)
	}
	got, err := v.kv.Range(ctx, &pb.RangeRequest{Key: key})
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Fatalf("get after the attack: %v, %v", got, err)
	}
}

// memory returns how many bytes of its own memory the process holds, without mapped files.
func (v victim) memory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no RssAnon in the process's status")
	return 0
}

// random returns a source that SQLSTORE_TEST_SEED repeats.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("SQLSTORE_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SQLSTORE_TEST_SEED: %v", err)
		}
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
