package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// ErrFellBehind is returned if the source was compacted above the target's revision.
var ErrFellBehind = errors.New("the source has compacted what the target lacks: drop the target's database and begin " +
	"again")

// State is how far a target has followed its source.
type State struct {
	// Revision is the target's, and Key is the last key written at it, nil if none was since the following began.
	Revision int64
	Key      []byte
	// Source is the source's revision when it was asked last, 0 before that.
	Source int64
	// Away is set if the source did not answer when it was asked last.
	Away bool
}

// Follow writes to the target what the source commits, until ctx ends. It calls report after each change, and when
// nothing was written for a moment. A source that does not answer is waited for. Errors: [ErrFellBehind],
// [backend.ErrSource], those of the target.
func Follow(ctx context.Context, s *Server, to *transfer.Following, report func(State)) error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	return follow(ctx, client, to, func(now State) error { report(now); return nil })
}

// follow is Follow until each returns an error.
func follow(ctx context.Context, client *clientv3.Client, to *transfer.Following, each func(State) error) error {
	var now State
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leases := time.NewTicker(leaseInterval)
	defer leases.Stop()
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	var events clientv3.WatchChan
	watched, from := make(chan clientv3.WatchChan, 1), clientv3.WithRev(to.Revision()+1)
	go func() { // it waits for the source
		watched <- client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), from,
			clientv3.WithFragment())
	}()
	for {
		select {
		case events = <-watched:
		case answer, ok := <-events:
			if err := watchError(ctx, &answer, ok); err != nil {
				return err
			}
			if err := to.Write(ctx, rowsOf(answer.Events)); err != nil {
				return err
			}
			if n := len(answer.Events); n > 0 {
				now.Key = answer.Events[n-1].Kv.Key
			}
		case <-leases.C:
			source, err := copyLeases(ctx, client, to)
			now.Away = away(err)
			switch {
			case err == nil:
				now.Source = source
			case !now.Away || ctx.Err() != nil:
				return err
			}
		case <-idle.C:
		}
		now.Revision = to.Revision()
		if err := each(now); err != nil {
			return err
		}
	}
}

// away reports whether a source has not answered, rather than refused.
func away(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code := status.Code(err)
	if answer, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = answer.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded
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
