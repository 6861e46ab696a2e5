package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fillBatch is how many objects a transaction of fill puts: etcd's maximum.
const fillBatch = 128

// keyOf is the key of object n in a store with many prefixes: their sizes differ, and their names do not sort as
// numbers do.
func keyOf(n int) string { return fmt.Sprintf("/load/namespace-%d/name-%d", n%61, n) }

// fill creates objects 0 to n-1 through etcd's API.
func (s *store) fill(t *testing.T, n int) {
	t.Helper()
	for from := 0; from < n; from += fillBatch {
		var ops []clientv3.Op
		for i := from; i < min(from+fillBatch, n); i++ {
			ops = append(ops, clientv3.OpPut(keyOf(i), fmt.Sprintf(`{"n":%d}`, i)))
		}
		if _, err := s.etcd.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// write changes objects 0 to objects-1 until stop is called: one half of the writers uses etcd's API, the other HTTP.
// Requests may fail, because servers are killed.
func (s *store) write(t *testing.T, objects int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range 4 {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		one := s.writeEtcd
		if n%2 == 1 {
			one = s.writeHTTP
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				one(ctx, keyOf(random.IntN(objects)), random)
			}
		})
	}
	t.Cleanup(cancel)
	return func() {
		cancel()
		wg.Wait()
	}
}

// writeEtcd puts or deletes an object, or several keys at one revision.
func (s *store) writeEtcd(ctx context.Context, key string, random *rand.Rand) {
	switch random.IntN(4) {
	case 0:
		_, _ = s.etcd.Delete(ctx, key)
	case 1:
		_, _ = s.etcd.Txn(ctx).Then(clientv3.OpPut(key, "several"), clientv3.OpPut(key+"-beside", "several"),
			clientv3.OpDelete(key+"-gone")).Commit()
	default:
		_, _ = s.etcd.Put(ctx, key, fmt.Sprintf(`{"etcd":%d}`, random.Int()))
	}
}

// writeHTTP deletes the object if it exists, or changes or creates it, whatever others do to it at the same time.
func (s *store) writeHTTP(ctx context.Context, key string, random *rand.Rand) {
	_, body, err := s.do(ctx, request{url: s.url(key)})
	if err != nil {
		return
	}
	version := versionOf(body)
	r := request{method: http.MethodPut, url: s.url(key), body: putJSON(fmt.Sprintf(`{"http":%d}`, random.Int()),
		version)}
	if version != "" && random.IntN(4) == 0 {
		r = request{method: http.MethodDelete, url: s.url(key) + "?resourceVersion=" + version}
	}
	_, _, _ = s.do(ctx, r)
}
