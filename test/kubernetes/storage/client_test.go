package storage

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// directories numbers the directories of this process.
var directories atomic.Int64

// run distinguishes the directories of this process from those of others on permanent servers.
var run = fmt.Sprintf("/%x", time.Now().UnixNano())

// client returns a client with a new directory on the shared servers.
func (s *servers) client(tb testing.TB) *kubernetes.Client {
	tb.Helper()
	return newClient(tb, s.endpoints, s.directory())
}

// freshClient returns a client of a store that is at revision 1.
func (s *servers) freshClient(tb testing.TB) *kubernetes.Client {
	tb.Helper()
	if s.start != nil {
		return newClient(tb, s.start(tb), directory{})
	}
	d := s.directory()
	now, err := newClient(tb, s.endpoints, d).KV.Get(context.Background(), "/")
	if err != nil {
		tb.Fatalf("read the current revision: %v", err)
	}
	d.base = now.Header.Revision - 1
	return newClient(tb, s.endpoints, d)
}

func (s *servers) directory() directory {
	return directory{prefix: fmt.Sprintf("%s/%d", run, directories.Add(1))}
}

// newClient returns the client that Kubernetes' own tests use, with the recorders that they inspect, inside d.
func newClient(tb testing.TB, endpoints []string, d directory) *kubernetes.Client {
	tb.Helper()
	client, err := kubernetes.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(d.unary),
			grpc.WithChainStreamInterceptor(d.stream),
		},
	})
	if err != nil {
		tb.Fatalf("new client: %v", err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}
