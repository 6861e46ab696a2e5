package sidebyside

import (
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Compactions at and below the first revision. A compaction at 0 counts like any other: it succeeds once, and is
// remembered across a restart.
func TestCompactAtTheFirstRevisions(t *testing.T) {
	for name, revisions := range map[string][2][]int64{ // before and after a restart
		"zero":            {{-1, 0, 0, -1}, {0, -1, 1, 0, 1}},
		"zero before one": {{0, 1}, {1, 0}},
		"one":             {{1, 0, 1}, {0, 1, 2, 3}},
		"never":           {{-1}, {-1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd, target := servers.Etcd(t), servers.Targets(t)
			for _, phase := range revisions {
				ctx := within(t)
				p := newPlayer(dial(t, "etcd", etcd.Endpoint()), dialAll(t, "target", target))
				if err := p.ask(ctx, hashKVCall(&pb.HashKVRequest{})); err != nil { // with the compacted revision
					t.Error(err)
				}
				for _, rev := range phase {
					for _, c := range []call{
						compactCall(&pb.CompactionRequest{Revision: rev, Physical: true}),
						txnCall(success(rangeOp("a", -1))), // checked against the compacted revision
						rangeCall(&pb.RangeRequest{Key: []byte("a"), Revision: 1}),
					} {
						if err := p.ask(ctx, c); err != nil {
							t.Error(err)
						}
					}
				}
				all := append([]*launch.Server{etcd}, target...)
				for _, s := range all {
					_ = s.Stop() // etcd dies of the signal, which counts as an error
				}
				var wg sync.WaitGroup
				for _, s := range all { // concurrently: a single etcd member does not become ready
					wg.Go(func() {
						if err := s.TryRestart(); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
