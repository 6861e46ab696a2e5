package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// promptly is the time in which a healthy server answers, even on a busy machine.
const promptly = 10 * time.Second

// victim is a server under attack, with a connection that takes no part in the attacks.
type victim struct {
	*launch.Server
	kv     pb.KVClient
	tls    *tls.Config // nil without TLS
	ca     []byte      // PEM
	http   *http.Client
	url    string // of the clients' listener
	client string // its host:port
	logged atomic.Int64
}

func startVictim(t *testing.T, args ...string) *victim {
	t.Helper()
	server := servers.Target(t, append(args, "--unsafe-no-fsync")...)
	return &victim{Server: server, kv: pb.NewKVClient(dial(t, server.Endpoint()))}
}

// startMeasured starts a victim whose resources can be measured, over TLS if secure.
func startMeasured(t *testing.T, secure bool, more ...string) *victim {
	t.Helper()
	v := &victim{http: &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
	args := append([]string{"--unsafe-no-fsync", "--enable-pprof"}, more...)
	cfg := launch.Config{Log: counter{&v.logged}, MayEnd: true, Args: args}

	if secure {
		dir, a := t.TempDir(), authority.New(t)
		cert, key := a.Issue("server")
		certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		authority.Write(t, certFile, cert)
		authority.Write(t, keyFile, key)
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		v.ca = a.PEM()
		v.tls = &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
		v.url, v.client = "https://"+address, address
		cfg.Args = append(cfg.Args, "--cert-file", certFile, "--key-file", keyFile, "--listen-client-urls", v.url,
			"--advertise-client-urls", v.url)
		v.http.Transport.(*http.Transport).TLSClientConfig = v.tls
	}
	v.Server = servers.TargetWith(t, cfg)
	if v.url == "" {
		v.url, v.client = v.ClientURL(), v.Endpoint()
	}
	conn, err := v.target().grpc()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	v.kv = pb.NewKVClient(conn)
	return v
}

// target returns the victim as its clients see it.
func (v *victim) target() *target {
	return &target{v.client, v.tls}
}

// fill puts n objects of a size.
func (v *victim) fill(t *testing.T, objects, size int) {
	t.Helper()
	const each = 100
	value := make([]byte, size)
	for at := 0; at < objects; at += each {
		txn := &pb.TxnRequest{}
		for i := at; i < min(at+each, objects); i++ {
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
				RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "object/%08d", i), Value: value},
			}})
		}
		if _, err := v.kv.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func dial(t *testing.T, endpoint string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+endpoint,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// healthy checks that the server is still the same process and works.
func (v *victim) healthy(t *testing.T) {
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

// random returns a source that SQLSTORE_TEST_SEED repeats.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	n := seed()
	t.Logf("seed %d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// seed is SQLSTORE_TEST_SEED, or one of its own for each process.
var seed = sync.OnceValue(func() uint64 {
	s := env.Seed.Text()
	if s == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", env.Seed, err))
	}
	return n
})
