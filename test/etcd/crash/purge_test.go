package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/support/datastore"
	"github.com/sqlstore/sqlstore/test/support/durability"
	"github.com/sqlstore/sqlstore/test/support/history"
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
	p.fill(t, writes)
	check(t, p.replicas[0].Endpoint(), p.record)
	kept, size := maps.Clone(p.record.Base), p.size(t)
	p.compacted = p.record.Rev
	last := p.history(t, p.replicas[0])
	compact(t, p.replicas[0].Endpoint(), p.compacted)
	p.fill(t, 1) // supersedes what the compacted revision needs

	for i := range kills {
		p.kill(t, p.awaitUnderWay(t, p.compacted*int64(i+1)/int64(kills+3)), seed+uint64(i))
	}
	p.awaitUnderWay(t, 0)
	server := p.await(t, p.compacted)
	check(t, server.Endpoint(), p.record)
	p.checkCompacted(t, server, kept, last)
	p.awaitSize(t, size/2)
}

// purge is a compaction whose rows are being deleted.
type purge struct {
	datastore.Choice
	replicas  []*launch.Server
	record    *durability.Record
	compacted int64
	through   int64 // the last reported revision up to which rows are deleted
}

func startPurge(t *testing.T) *purge {
	t.Helper()
	p := &purge{Choice: datastore.FromEnv(t), record: durability.New()}
	if p.Postgres {
		p.DSN = pgserver.Database(t) // to query it directly, too
	}
	p.replicas = p.Start(t, launch.Config{})
	return p
}

// fill writes many versions of few keys, each client its own.
func (p *purge) fill(t *testing.T, writes int) {
	t.Helper()
	const writers = 8
	var all errgroup.Group
	for i := range writers {
		conn := dial(t, p.replicas[i%len(p.replicas)].Endpoint())
		all.Go(func() error {
			for n := range writes {
				if err := p.write(t.Context(), conn, i, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

// write makes a client's n-th write: it deletes a fifth of its keys, put by the previous write, and puts the others.
func (p *purge) write(ctx context.Context, conn *grpc.ClientConn, client, n int) error {
	const groups, groupKeys = 5, 20
	o := history.Op{Client: client, Kind: history.Put}
	for k := range groups * groupKeys {
		key := fmt.Sprintf("p/%d/%02d", client, k)
		if n > 0 && k%groups == n%groups {
			o.Deletes = append(o.Deletes, key)
		} else {
			o.Keys = append(o.Keys, key)
		}
	}
	_, err := p.record.Do(ctx, conn, o)
	return err
}

// kill kills a replica under load. Another, or the restarted one, continues the deletion afterwards.
func (p *purge) kill(t *testing.T, victim *launch.Server, seed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var loaded errgroup.Group
	loaded.Go(func() error {
		return durability.Load{Endpoints: datastore.Endpoints(p.replicas), Seed: seed}.Run(ctx, p.record)
	})
	err := p.record.AwaitMore(ctx, durability.Clients)
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

// history reads the events from the compacted revision on. Those of that revision come without the versions before,
// which go with the compaction.
func (p *purge) history(t *testing.T, s *launch.Server) []history.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := p.record.History(ctx, dial(t, s.Endpoint()), p.compacted, p.record.Rev)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if events[i].Revision == p.compacted {
			events[i].Prev = history.KV{}
		}
	}
	return events
}

// checkCompacted checks that the remaining rows are those that the compacted revision and all later ones need: kept are
// the keys at the compacted revision, last its events.
func (p *purge) checkCompacted(t *testing.T, s *launch.Server, kept history.Base, last []history.Event) {
	t.Helper()
	then, err := p.record.Do(t.Context(), dial(t, s.Endpoint()), durability.All(p.compacted))
	if err != nil {
		t.Fatal(err)
	}
	if err := history.Reads(kept, []*history.Op{then}, nil); err != nil {
		t.Errorf("range at the compacted revision %d: %v", p.compacted, err)
	}
	events := p.history(t, s)
	if err := history.Watch(events[:min(len(last), len(events))], last); err != nil {
		t.Errorf("the compacted revision %d: %v", p.compacted, err)
	}
	deleted := 0
	for _, e := range last {
		if e.Deleted {
			deleted++
		}
	}
	if got, want := p.rows(t), len(kept)+deleted+len(events)-len(last); got != want {
		t.Errorf("%d rows are left, want %d", got, want)
	}
}
