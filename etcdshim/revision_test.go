package etcdshim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// batches records the store's revision right after the batch that granted a lease, before any answer.
type batches struct {
	mu      sync.Mutex
	store   *store.Store
	granted map[int64]int64
}

func (b *batches) Batch(batch store.Batch) {
	if len(batch.Granted) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range batch.Granted {
		b.granted[l.ID] = b.store.Revision()
	}
}

func (b *batches) Events(int)                                {}
func (b *batches) Purged(time.Duration, backend.PurgeResult) {}

func (b *batches) of(lease int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.granted[lease]
}

// With concurrent writers, the header of a revocation has the revision of the deletions, and that of a grant no later
// one.
func TestHeadersBesideOtherWriters(t *testing.T) {
	const workers, rounds = 4, 50
	seen := &batches{granted: map[int64]int64{}}
	s := serve(t, Options{}, store.Config{Observer: seen})
	seen.store = s.store
	ctx, cancel := context.WithCancel(t.Context())
	var writers, revokers sync.WaitGroup
	for i := range workers {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.kv.Put(ctx, &pb.PutRequest{Key: fmt.Append(nil, "w", i)})
			}
		})
	}
	deleted := make([]map[string]int64, workers)
	for i := range workers {
		deleted[i] = map[string]int64{}
		revokers.Go(func() {
			for n := range rounds {
				id, key := int64(1+i*rounds+n), fmt.Sprintf("k%d-%d", i, n)
				g, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 60})
				if err != nil {
					t.Error(err)
					return
				}
				if latest := seen.of(id); g.Header.Revision > latest {
					t.Errorf("a grant answers with revision %d; after its batch it was %d", g.Header.Revision, latest)
				}
				p, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Lease: id})
				if err != nil {
					t.Error(err)
					return
				}
				l, err := s.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
				if err != nil || len(l.Keys) != 1 || l.Header.Revision < p.Header.Revision {
					t.Errorf("the lease of a key of revision %d is %v, %v", p.Header.Revision, l, err)
				}
				r, err := s.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
				if err != nil {
					t.Error(err)
					return
				}
				deleted[i][key] = r.Header.Revision
			}
		})
	}
	revokers.Wait()
	cancel()
	writers.Wait()
	for _, keys := range deleted {
		for key, rev := range keys {
			at, err := s.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(key), Revision: rev})
			if err != nil {
				t.Fatal(err)
			}
			before, err := s.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte(key), Revision: rev - 1})
			if err != nil {
				t.Fatal(err)
			}
			if at.Count != 0 || before.Count != 1 {
				t.Errorf("%s was deleted at another revision than %d, which the revocation answers with", key, rev)
			}
		}
	}
}
