package e2e

import (
	"context"
	"errors"
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

// writers change objects until stop is called: half of them through etcd's API, half through HTTP.
type writers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error
	// lax means that a replica is killed during the writes, so that requests may fail.
	lax bool
}

// write starts writers of objects 0 to objects-1.
func (s *store) write(t *testing.T, objects int, lax bool) *writers {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{cancel: cancel, lax: lax}
	for n := range 4 {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		one := s.writeEtcd
		if n%2 == 1 {
			one = s.writeHTTP
		}
		w.wg.Go(func() {
			for ctx.Err() == nil {
				err := one(ctx, keyOf(random.IntN(objects)), random)
				if err != nil && ctx.Err() == nil && !w.lax {
					w.mu.Lock()
					w.errs = append(w.errs, err)
					w.mu.Unlock()
					return
				}
			}
		})
	}
	t.Cleanup(cancel)
	return w
}

// stop ends the writers. The test fails if one of them could not write.
func (w *writers) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	w.wg.Wait()
	if err := errors.Join(w.errs...); err != nil {
		t.Fatal(err)
	}
}

// writeEtcd puts or deletes an object, or several keys at one revision.
func (s *store) writeEtcd(ctx context.Context, key string, random *rand.Rand) error {
	switch random.IntN(4) {
	case 0:
		_, err := s.etcd.Delete(ctx, key)
		return err
	case 1:
		_, err := s.etcd.Txn(ctx).Then(clientv3.OpPut(key, "several"), clientv3.OpPut(key+"-beside", "several"),
			clientv3.OpDelete(key+"-gone")).Commit()
		return err
	default:
		_, err := s.etcd.Put(ctx, key, fmt.Sprintf(`{"etcd":%d}`, random.Int()))
		return err
	}
}

// writeHTTP deletes the object if it exists, or changes or creates it, whatever others do to it at the same time.
func (s *store) writeHTTP(ctx context.Context, key string, random *rand.Rand) error {
	code, body, err := s.do(ctx, request{url: s.url(key)})
	if err != nil {
		return err
	}
	version := ""
	if code == http.StatusOK {
		version = versionOf(body)
	}
	r := request{method: http.MethodPut, url: s.url(key), body: putJSON(fmt.Sprintf(`{"http":%d}`, random.Int()),
		version)}
	if version != "" && random.IntN(4) == 0 {
		r = request{method: http.MethodDelete, url: s.url(key) + "?resourceVersion=" + version}
	}
	code, body, err = s.do(ctx, r)
	if err != nil {
		return err
	}
	switch code {
	case http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusNotFound:
		return nil
	default:
		return fmt.Errorf("%s %s: %d %s", r.method, r.url, code, body)
	}
}
