package store

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Status returns the state of the store and its database. Errors: those of the backend.
func (s *Store) Status(ctx context.Context) (*Status, error) {
	size, err := s.backend.Size(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	at := s.index.Position()
	return &Status{
		Revision: at.Revision, Compacted: max(0, at.Compacted), Epoch: s.Epoch(), Keys: int64(at.Keys),
		Waiting:   s.seq.queue.waiting(),
		ClusterID: s.settings.ClusterID, MemberID: s.settings.MemberID, Leader: s.Leader(),
		DBSize: size.Total, DBSizeInUse: size.InUse, DBLog: size.Log, DBLogStalled: size.LogStalled,
		DBWAL:     size.WAL,
		OpenReads: size.Reads, Quota: max(0, s.quota.limit.Load()), Alarms: s.Alarms(),
	}, nil
}

// Settings returns the identity of the store.
func (s *Store) Settings() backend.Settings { return s.settings }

// defragmentWait is how long Defragment waits for readers of the rows to be deleted.
const defragmentWait = 2 * time.Second

// Defragment gives back all the space that the database can give back. It first deletes the rows below the compacted
// revision, because an operator who is out of space compacts and defragments in one go. Rows that readers hold for
// longer than defragmentWait are left for later. Errors: those of [Store.CheckAdmin].
func (s *Store) Defragment(ctx context.Context) error {
	if err := s.CheckAdmin(ctx); err != nil {
		return err
	}
	if _, err := s.purgeAll(ctx, defragmentWait); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	if err := s.backend.Defragment(ctx); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// Reclaim gives up to pages free pages of the database back to the operating system. See [backend.Backend.Reclaim] for
// done and took. Errors: those of the backend.
func (s *Store) Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error) {
	return s.backend.Reclaim(ctx, pages)
}

// WrittenAt returns when a revision was committed; see [backend.Times].
func (s *Store) WrittenAt(ctx context.Context, revision int64) (backend.Commit, backend.Clock, error) {
	return s.backend.WrittenAt(ctx, revision)
}

// CurrentAt returns the revision that was current at a time; see [backend.Times].
func (s *Store) CurrentAt(ctx context.Context, t time.Time) (backend.Commit, backend.Clock, error) {
	return s.backend.CurrentAt(ctx, t)
}
