package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// CorruptChecks says when a server reads all rows of the database, verifies them against their checksums, and compares
// the keys in its memory with them. Damage and differences raise the CORRUPT alarm. A check takes as long as HashKV.
type CorruptChecks struct {
	// Initial checks once before the server serves. Start then fails if the database is corrupt.
	Initial bool
	// Period is how often to check. 0 means never.
	Period time.Duration
	// CompactionPeriod is how often to check if there was a compaction since. 0 means never.
	CompactionPeriod time.Duration
}

// checkInitially runs the first check. A database that cannot be read does not fail it.
func (s *Server) checkInitially(ctx context.Context, checks CorruptChecks) error {
	if !checks.Initial {
		return nil
	}
	err := s.checkCorruption(ctx)
	if errors.Is(err, backend.ErrCorrupt) {
		return fmt.Errorf("initial corruption check: %w", err)
	}
	return ctx.Err()
}

// checkCorruption runs a check and logs its result.
func (s *Server) checkCorruption(ctx context.Context) error {
	began := time.Now()
	res, err := s.store.CompareDatabase(ctx)
	switch {
	case err == nil:
		s.log.Info("the database and the keys in memory are not corrupt", "revision", res.Revision, "compact-revision",
			res.Compacted, "rows", res.Rows, "compared-keys", res.Keys, "took", time.Since(began))
	case errors.Is(err, backend.ErrCorrupt):
		s.log.Error("the corruption check failed", "revision", res.Revision, "error", err)
	case ctx.Err() == nil:
		s.log.Warn("the corruption check could not be finished", "revision", res.Revision, "error", err)
	}
	return err
}

// checkPeriodically starts the checks that run while the server serves. They end with [Server.Close].
func (s *Server) checkPeriodically(checks CorruptChecks) {
	ctx, stop := context.WithCancel(context.Background())
	s.stopChecking = stop
	start := func(period time.Duration, due func() bool) {
		if period <= 0 {
			return
		}
		s.wg.Go(func() {
			ticker := time.NewTicker(period)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				if due() {
					_ = s.checkCorruption(ctx)
				}
			}
		})
	}
	start(checks.Period, func() bool { return true })
	compacted := s.store.Compacted()
	start(checks.CompactionPeriod, func() bool {
		last := compacted
		compacted = s.store.Compacted()
		return compacted != last
	})
}
