package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// ErrFellBehind is returned if the source was compacted above the target's revision.
var ErrFellBehind = errors.New("the source has compacted what the target lacks: drop the target's database and begin " +
	"again")

// Follow writes to the target what the source commits, until ctx ends. It calls report with the target's revision
// after each change. Errors: [ErrFellBehind], [backend.ErrSource], those of the target.
func Follow(ctx context.Context, s *Server, to *transfer.Following, report func(revision int64)) error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	return follow(ctx, client, to, func(revision int64) error { report(revision); return nil })
}

// follow is Follow until each returns an error. It also calls each when nothing was written for a moment.
func follow(ctx context.Context, client *clientv3.Client, to *transfer.Following, each func(int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leases := time.NewTicker(leaseInterval)
	defer leases.Stop()
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	events := client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(),
		clientv3.WithRev(to.Revision()+1), clientv3.WithFragment())
	for {
		select {
		case answer, ok := <-events:
			if err := watchError(ctx, &answer, ok); err != nil {
				return err
			}
			if err := to.Write(ctx, rowsOf(answer.Events)); err != nil {
				return err
			}
		case <-leases.C:
			if err := copyLeases(ctx, client, to); err != nil {
				return err
			}
		case <-idle.C:
		}
		if err := each(to.Revision()); err != nil {
			return err
		}
	}
}

// watchError returns why a watch has ended, nil if it has not.
func watchError(ctx context.Context, answer *clientv3.WatchResponse, ok bool) error {
	switch err := answer.Err(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w (compacted at revision %d)", ErrFellBehind, answer.CompactRevision)
	case err != nil:
		return fmt.Errorf("%w: watch: %w", backend.ErrSource, err)
	case !ok:
		return fmt.Errorf("%w: the watch has ended", backend.ErrSource)
	}
	return nil
}

// rowsOf turns events, of whole revisions, into rows.
func rowsOf(events []*clientv3.Event) []backend.Row {
	rows := make([]backend.Row, len(events))
	for i, e := range events {
		r := backend.Row{Key: e.Kv.Key, ModRevision: e.Kv.ModRevision, Deleted: e.Type == mvccpb.DELETE}
		if !r.Deleted {
			r.Value, r.CreateRevision, r.Version, r.Lease = e.Kv.Value, e.Kv.CreateRevision, e.Kv.Version, e.Kv.Lease
		}
		if i > 0 && rows[i-1].ModRevision == r.ModRevision {
			r.Ordinal = rows[i-1].Ordinal + 1
		}
		rows[i] = r
	}
	return rows
}
