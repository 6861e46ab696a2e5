// Package faults detects faults in the parts of a server, for its conditions.
package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// lagThreshold is how far watches may be behind before that is reported. readTimeout is how far this replica may be
	// behind the others before it counts as serving no reads and they stop waiting for it.
	lagThreshold = 5 * time.Second
	readTimeout  = 7 * time.Second
	// probeTimeout limits how long a check waits for a SQLite database, commitTimeout how long a commit there may
	// take.
	probeTimeout  = 5 * time.Second
	commitTimeout = 5 * time.Second
	// faultMemory is how long a failed write counts if no other write has been tried since.
	faultMemory = 30 * time.Second
	// failingTime is how long all writes to a shared database must have failed: a failover cuts off single ones.
	failingTime = 5 * time.Second
	// refusalMemory is how long a connection that the database server refused counts.
	refusalMemory = 30 * time.Second
)

// Alarms reports the raised alarms in in.
func Alarms(s *store.Store, in *conditions.Inputs) {
	for _, a := range s.Alarms() {
		switch a.Kind {
		case store.AlarmNoSpace:
			in.NoSpace = &conditions.Fault{
				Reason: "QuotaExceeded",
				Message: "the NOSPACE alarm is raised, so the server accepts only reads and deletes: compact and " +
					"defragment the database (etcdctl compact, etcdctl defrag), or raise " +
					setting.Name("QuotaBytes") + ", then etcdctl alarm disarm",
			}
		case store.AlarmCorrupt:
			in.Corrupt = corrupt(s.Corruption())
		}
	}
}

// corrupt is the condition of the CORRUPT alarm; err is what this server found, if it was this one.
func corrupt(err error) *conditions.Fault {
	if err == nil {
		return &conditions.Fault{
			Reason: "AlarmRaised",
			Message: "the CORRUPT alarm is raised, so the server accepts no writes: find out who raised " +
				"it and why, " +
				"restore a backup if the data is damaged, then run etcdctl alarm disarm",
		}
	}
	return &conditions.Fault{
		Reason: "CorruptData",
		Message: fmt.Sprintf("the CORRUPT alarm is raised, so the server accepts no writes; what it read was "+
			"not served: %v; then run etcdctl alarm disarm", err),
	}
}

// Writing checks whether the database answers and accepts writes.
func Writing(s *store.Store, in *conditions.Inputs, now time.Time) {
	if err := s.Err(); err != nil {
		in.Stopped = &conditions.Fault{Reason: conditions.ReasonWritesStopped, Message: fmt.Sprintf(
			"the outcome of a commit is unknown, so the server accepts no writes until it is restarted: %v", err)}
	}
	if err := s.OutOfSpace(); err != nil && in.NoSpace == nil {
		in.NoSpace = &conditions.Fault{
			Reason: "ReserveReleased",
			Message: fmt.Sprintf("%v: free space on the disk, or delete keys, compact and defragment the database "+
				"(etcdctl del, etcdctl compact, etcdctl defrag)", err),
		}
	}
	w := s.Writing()
	recent := w.Fault != nil && now.Sub(w.Fault.At) < faultMemory
	if recent && w.Fault.NoSpace() && in.NoSpace == nil {
		in.NoSpace = &conditions.Fault{
			Reason:  "DiskFull",
			Message: fmt.Sprintf("the database's disk is full: %v", w.Fault.Err),
		}
	}
	failing := recent && !w.Fault.NoSpace()
	if gone := s.NoLeader(); gone != nil {
		in.Database = sharedWriting(gone, failing, w.Fault)
		return
	}
	err := answers(s, in)
	refused := s.Refused() // perhaps since that question
	switch {
	case refused != nil: // the disk need not be the cause
		if in.Stopped == nil {
			in.Stopped = &conditions.Fault{Reason: conditions.ReasonWritesStopped, Message: refused.Error()}
		}
	case err != nil:
		in.Database = &conditions.Fault{
			Reason:  "NoAnswer",
			Message: fmt.Sprintf("the database cannot be read: %v; check its disk", err),
		}
	case w.Commit > commitTimeout:
		in.Database = &conditions.Fault{
			Reason: "CommitHangs",
			Message: "a commit has been running for more than " + commitTimeout.String() +
				": check the database's disk, and whether clients write very large transactions",
		}
	case failing:
		in.Database = &conditions.Fault{
			Reason:  reasonWritesFail,
			Message: fmt.Sprintf("the database accepts no writes: %v; check its disk and its permissions", w.Fault.Err),
		}
	}
}

const reasonWritesFail = "WritesFail"

// sharedWriting checks whether a shared database accepts the heartbeats of this replica, and other writes.
func sharedWriting(gone <-chan struct{}, failing bool, f *store.WriteFault) *conditions.Fault {
	select {
	case <-gone:
		return &conditions.Fault{
			Reason: "NoHeartbeat",
			Message: "the database has accepted no heartbeat from this replica for five seconds: check whether " +
				"it runs, is reachable from here, and can commit (a synchronous standby may be missing)",
		}
	default:
	}
	if !failing || f.Lasted() < failingTime {
		return nil
	}
	return &conditions.Fault{
		Reason: reasonWritesFail,
		Message: fmt.Sprintf("the database accepts heartbeats, but no writes: all in the last %d s have failed: %v; "+
			"check its log and the rights of sqlstore's user", int(f.Lasted().Seconds()), f.Err),
	}
}

// answers asks a SQLite database for its size and checks its write-ahead log.
func answers(s *store.Store, in *conditions.Inputs) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	st, err := s.Status(ctx)
	if err != nil || st.DBLogStalled == 0 || st.DBLog == 0 {
		return err
	}
	in.Stuck = &conditions.Fault{
		Reason: "LongTransaction",
		Message: fmt.Sprintf("another program (a sqlite3 shell, a backup) has kept a transaction open on the "+
			"database for longer than %s, so its write-ahead log grows, by %d MiB so far, and counts against the "+
			"quota: end the transaction; 'fuser -v' on the database file shows whose it is",
			st.DBLogStalled.Truncate(10*time.Second), st.DBLog>>20),
	}
	if st.Quota > 0 && st.DBSize+st.DBLog > st.Quota && in.NoSpace == nil {
		in.NoSpace = &conditions.Fault{
			Reason: "LogExceedsQuota",
			Message: "the database and its write-ahead log together exceed " + setting.Name("QuotaBytes") + ": " +
				in.Stuck.Message,
		}
	}
	return nil
}

// Lagging checks whether the watches on this replica, and with them its reads, lag behind.
func Lagging(s *store.Store, in *conditions.Inputs) {
	l := s.Lag(lagThreshold)
	if l.Tail >= readTimeout && in.Database == nil {
		in.Database = &conditions.Fault{
			Reason: "ReadsTimeOut",
			Message: "the database accepts heartbeats, but has not reported for " + readTimeout.String() +
				" what other replicas have committed, and linearizable reads fail: check whether something holds " +
				"locks on sqlstore's tables, and how busy the database is",
		}
	}
	switch {
	case l.Tail >= lagThreshold:
		in.Lagging = &conditions.Fault{
			Reason: "TailBehind",
			Message: fmt.Sprintf("commits of other replicas in the last %d s may not have reached the "+
				"watches on this one: check how busy the database and this machine are, and whether something holds "+
				"locks on sqlstore's tables", int(l.Tail.Seconds())),
		}
	case l.Watches > 0:
		in.Lagging = &conditions.Fault{
			Reason: "SlowWatches",
			Message: fmt.Sprintf("%d watches have been behind for %d s or more, the longest for %d s, by up to %d "+
				"revisions: they read a long history, or their clients receive events more slowly than they "+
				"arrive, or "+
				"have stopped",
				l.Watches, int(lagThreshold.Seconds()), int(l.Longest.Seconds()), l.Revisions),
		}
	}
}

// Connections reports whether the database server has refused connections lately.
func Connections(c backend.Connections, now time.Time) *conditions.Fault {
	if c.RefusedAt.IsZero() || now.Sub(c.RefusedAt) >= refusalMemory {
		return nil
	}
	return &conditions.Fault{
		Reason: "TooManyConnections",
		Message: fmt.Sprintf("the database server has refused connections in the last %d s (%s), so reads, compaction "+
			"and defragmentation wait for others and may time out: raise its limit (CONNECTION LIMIT of the role or "+
			"the database, max_connections), or lower %s of all replicas", int(refusalMemory.Seconds()), c.Refused,
			setting.Name("DatastoreMaxConns")),
	}
}

// PageChecksums reports whether the database server keeps no checksums of its pages.
func PageChecksums(none bool) *conditions.Fault {
	if !none {
		return nil
	}
	return &conditions.Fault{
		Reason: "DataChecksumsOff",
		Message: "the database server has data_checksums=off and does not notice damage to its files; sqlstore " +
			"verifies rows by their own checksums, but indexes only at its start: stop the server and run " +
			"'pg_checksums --enable' (on standbys, too), or create a new one with 'initdb --data-checksums'",
	}
}

// WeakSettings reports settings of the database server that may lose acknowledged writes.
func WeakSettings(settings string) *conditions.Fault {
	if settings == "" {
		return nil
	}
	return &conditions.Fault{
		Reason: "WeakSettings",
		Message: fmt.Sprintf("the database server has %s and may lose acknowledged writes when it crashes, so "+
			"sqlstore writes nothing to it: turn them on there, or accept the risk with %s", settings,
			setting.Name("UnsafeNoFsync")),
	}
}
