package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/support/datastore"
	"github.com/sqlstore/sqlstore/test/support/journal"
)

// A server that dies while it deletes what a compaction left behind loses no row that is needed. After its restart, or
// on another replica, the deletion resumes where it stopped, until only needed rows are left and the space is freed.
func TestKillInPurge(t *testing.T) {
	seed := env.Seed.Uint(t, rand.Uint64())
	t.Logf("seed %d", seed)
	p := startPurge(t)
	kills, writes := 4, 60
	if p.Postgres {
		kills, writes = 2, 10 // another process takes over only after some seconds, and each step takes its round trips
	}
	m := journal.NewModel(p.j)
	last := p.fill(t, writes)
	check(t, p.replicas[0].Endpoint(), m, nil)
	kept, size := m.List(), p.size(t)
	p.compacted = m.Rev
	compact(t, p.replicas[0].Endpoint(), p.compacted)
	p.fill(t, 1) // supersedes what the compacted revision needs

	for i := range kills {
		p.kill(t, p.awaitUnderWay(t, p.compacted*int64(i+1)/int64(kills+3)), seed+uint64(i))
	}
	p.awaitUnderWay(t, 0)
	server := p.await(t, p.compacted)
	check(t, server.Endpoint(), m, nil)
	p.checkCompacted(t, server, kept, last)
	p.awaitSize(t, size/2)
}

// purge is a compaction whose rows are being deleted.
type purge struct {
	datastore.Choice
	replicas  []*launch.Server
	j         *journal.Journal
	compacted int64
	through   int64 // the last reported revision up to which rows are deleted
}

func startPurge(t *testing.T) *purge {
	t.Helper()
	p := &purge{Choice: datastore.FromEnv(t), j: journal.New()}
	if p.Postgres {
		p.DSN = pgserver.Database(t) // to query it directly, too
	}
	p.replicas = p.Start(t, launch.Config{})
	return p
}

// fill writes many versions of few keys, each client its own, and returns the write with the newest revision.
func (p *purge) fill(t *testing.T, writes int) *journal.Write {
	t.Helper()
	const writers = 8
	var all errgroup.Group
	for i := range writers {
		kv := pb.NewKVClient(dial(t, p.replicas[i%len(p.replicas)].Endpoint()))
		all.Go(func() error {
			for n := range writes {
				if err := p.write(t.Context(), kv, i, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return p.j.Newest()
}

// write makes a client's n-th write: it deletes a fifth of its keys, put by the previous write, and puts the others.
func (p *purge) write(ctx context.Context, kv pb.KVClient, client, n int) error {
	const groups, groupKeys = 5, 20
	var puts, deletes []string
	for k := range groups * groupKeys {
		key := fmt.Sprintf("p/%d/%02d", client, k)
		if n > 0 && k%groups == n%groups {
			deletes = append(deletes, key)
		} else {
			puts = append(puts, key)
		}
	}
	w := p.j.Begin(puts, deletes)
	txn := &pb.TxnRequest{}
	for _, key := range puts {
		txn.Success = append(txn.Success, journal.PutOp(key, w.ID))
	}
	for _, key := range deletes {
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
		}})
	}
	r, err := kv.Txn(ctx, txn)
	if err != nil {
		return err
	}
	return p.j.End(w, journal.Acked, r.Header.Revision)
}

// kill kills a replica under load. Another, or the restarted one, continues the deletion afterwards.
func (p *purge) kill(t *testing.T, victim *launch.Server, seed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var loaded errgroup.Group
	loaded.Go(func() error {
		return journal.Load{Endpoints: datastore.Endpoints(p.replicas), Seed: seed}.Run(ctx, p.j)
	})
	err := p.j.AwaitMore(ctx, journal.Clients)
	victim.Kill()
	cancel()
	if err := loaded.Wait(); err != nil {
		t.Fatalf("under load: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	victim.Restart(t)
	if got, _ := gauge(t, victim, "revision"); got != p.compacted {
		t.Fatalf("the compacted revision is %d after the restart, %d before", got, p.compacted)
	}
}

// checkCompacted checks that the remaining rows are those that the compacted revision and all later ones need. last
// wrote the compacted revision.
func (p *purge) checkCompacted(t *testing.T, s *launch.Server, kept []*mvccpb.KeyValue, last *journal.Write) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := dial(t, s.Endpoint())
	then, err := pb.NewKVClient(conn).Range(ctx, journal.Everything(p.compacted))
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.SameKeys(then.Kvs, kept); err != nil {
		t.Errorf("range at the compacted revision %d: %v", p.compacted, err)
	}
	events, err := journal.History(ctx, conn, p.compacted, then.Header.Revision)
	if err != nil {
		t.Fatal(err)
	}
	n := journal.FirstRevision(events)
	if err := last.Matches(events[:n]); err != nil {
		t.Errorf("the compacted revision %d: %v", p.compacted, err)
	}
	if got, want := p.rows(t), len(kept)+len(last.Deletes)+len(events)-n; got != want {
		t.Errorf("%d rows are left, want %d", got, want)
	}
}
