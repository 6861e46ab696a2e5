package sqlstore

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// lagPatience is how long watches may be behind before it is told, readPatience how long this replica may be behind
	// the others before it counts as one that serves no reads: they wait for it no longer.
	lagPatience  = 5 * time.Second
	readPatience = 7 * time.Second
	// probePatience bounds what a look waits for a SQLite database, commitPatience how long a commit there may take.
	probePatience  = 5 * time.Second
	commitPatience = 5 * time.Second
	// faultMemory is for how long a write that failed counts when none has been tried since.
	faultMemory = 30 * time.Second
)

// facts looks at what the conditions are made of. The monitor calls it about once a second, and never twice at a time.
func (s *Server) facts(now time.Time) *conditions.Facts {
	st := &s.state
	st.mu.Lock()
	f := &conditions.Facts{
		Generation: st.generation, InForce: st.inForce, Refused: st.refused,
		Stage: st.stage, Waiting: st.waiting, Setup: st.setup,
	}
	opened := st.store
	st.mu.Unlock()
	f.Missing, f.Expiring = s.references(now)
	if opened == nil {
		return f
	}
	alarms(opened, f)
	if f.Stage != conditions.Serving {
		return f // the database may be closed by now
	}
	writing(opened, f, now)
	if b, ok := s.backend.(backend.Durability); ok {
		f.Weak = weak(b.NotDurable())
	}
	lagging(opened, f)
	if c := s.compacting.state(); c != nil && c.Stall != nil {
		f.Stalled = &conditions.Fault{Reason: c.Stall.Reason, Message: c.Stall.Message}
	}
	return f
}

// weak tells of settings of the database server with which it may lose what it acknowledges.
func weak(settings string) *conditions.Fault {
	if settings == "" {
		return nil
	}
	return &conditions.Fault{
		Reason: "WeakSettings",
		Message: fmt.Sprintf("the database server has %s and may lose acknowledged writes when it crashes, so "+
			"nothing is written to it: turn them on there, or accept that with --unsafe-no-fsync", settings),
	}
}

// references looks at the files that the configuration names.
func (s *Server) references(now time.Time) (missing, expiring *conditions.Fault) {
	if path := s.state.passwordFile; path != "" {
		if f, err := os.Open(path); err != nil {
			missing = &conditions.Fault{Reason: "PasswordFileUnreadable", Message: fmt.Sprintf(
				"the file of the datastore's password: %v; new connections to the database cannot be opened: restore "+
					"the file", err)}
		} else {
			_ = f.Close()
		}
	}
	if s.certs == nil {
		return missing, nil
	}
	certs := s.certs.State()
	if certs.Err != nil {
		missing = &conditions.Fault{Reason: "CertificateUnreadable", Message: fmt.Sprintf(
			"the TLS files cannot be used as they are now, and what was read before is served: %v; restore them, "+
				"they are read again at once", certs.Err)}
	}
	return missing, expiry(certs.Served, now)
}

// expiry tells the certificate that ends first of those that are near their end.
func expiry(served []listen.Validity, now time.Time) *conditions.Fault {
	var first *listen.Validity
	for i := range served {
		if v := &served[i]; v.Expiring(now) && (first == nil || v.NotAfter.Before(first.NotAfter)) {
			first = v
		}
	}
	if first == nil {
		return nil
	}
	f := &conditions.Fault{Reason: "NearEnd", Message: "ends"}
	if first.NotAfter.Before(now) {
		f.Reason, f.Message = "Expired", "has ended"
	}
	f.Message = fmt.Sprintf("the certificate in %s %s on %s: put a new one there, it is used at once", first.File,
		f.Message, first.NotAfter.UTC().Format(time.RFC3339))
	return f
}

// alarms tells those that are raised.
func alarms(s *store.Store, f *conditions.Facts) {
	for _, a := range s.Alarms() {
		switch a.Kind {
		case store.AlarmNoSpace:
			f.NoSpace = &conditions.Fault{
				Reason: "QuotaExceeded",
				Message: "the NOSPACE alarm is raised and only reads and deletes are served: compact and " +
					"defragment the database (etcdctl compact, etcdctl defrag), or raise --quota-backend-bytes, then " +
					"etcdctl alarm disarm",
			}
		case store.AlarmCorrupt:
			f.Corrupt = &conditions.Fault{
				Reason: "AlarmRaised",
				Message: "the CORRUPT alarm is raised and nothing is written: find out who raised it and why, " +
					"restore a backup if the data is damaged, then etcdctl alarm disarm",
			}
		}
	}
}

// writing looks whether the database answers and takes writes.
func writing(s *store.Store, f *conditions.Facts, now time.Time) {
	if err := s.Err(); err != nil {
		f.Stopped = &conditions.Fault{Reason: conditions.ReasonWritesStopped, Message: fmt.Sprintf(
			"the outcome of a commit is unknown, and nothing is written until the server is started again: %v", err)}
	}
	w := s.Writing()
	recent := w.Fault != nil && now.Sub(w.Fault.At) < faultMemory
	if recent && w.Fault.NoSpace() && f.NoSpace == nil {
		f.NoSpace = &conditions.Fault{
			Reason:  "DiskFull",
			Message: fmt.Sprintf("the database has no room on its disk: %v", w.Fault.Err),
		}
	}
	if gone := s.NoLeader(); gone != nil { // heartbeats tell it better than single writes, which a failover may cut off
		select {
		case <-gone:
			f.Database = &conditions.Fault{
				Reason: "NoHeartbeat",
				Message: "the database has taken no heartbeat of this replica for five seconds: look whether " +
					"it runs, can be reached from here, and can commit (a synchronous standby may be missing)",
			}
		default:
		}
		return
	}
	err := answers(s, f)
	switch {
	case err != nil:
		f.Database = &conditions.Fault{
			Reason:  "NoAnswer",
			Message: fmt.Sprintf("the database cannot be read: %v; look at its disk", err),
		}
	case w.Commit > commitPatience:
		f.Database = &conditions.Fault{
			Reason: "CommitHangs",
			Message: "a commit has not come to its end for more than " + commitPatience.String() +
				": look at the disk of the database, and whether somebody writes very large transactions",
		}
	case recent && !w.Fault.NoSpace():
		f.Database = &conditions.Fault{
			Reason:  "WritesFail",
			Message: fmt.Sprintf("the database takes no writes: %v; look at its disk and its permissions", w.Fault.Err),
		}
	}
}

// answers asks a SQLite database for its size, and looks at its log.
func answers(s *store.Store, f *conditions.Facts) error {
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	st, err := s.Status(ctx)
	if err != nil || st.DBLogHeld == 0 || st.DBLog == 0 {
		return err
	}
	f.Held = &conditions.Fault{
		Reason: "LongTransaction",
		Message: fmt.Sprintf("a transaction of another program (a sqlite3 shell, a backup) has been open on the "+
			"database for longer than %s, so its write-ahead log grows, by %d MiB so far, and counts against the "+
			"quota: end the transaction; 'fuser -v' on the database's file tells whose it is",
			st.DBLogHeld.Truncate(10*time.Second), st.DBLog>>20),
	}
	if st.Quota > 0 && st.DBSize+st.DBLog > st.Quota && f.NoSpace == nil {
		f.NoSpace = &conditions.Fault{
			Reason: "LogExceedsQuota",
			Message: "the database and its write-ahead log are larger than --quota-backend-bytes together: " +
				f.Held.Message,
		}
	}
	return nil
}

// lagging looks whether watches are behind, and reads with them.
func lagging(s *store.Store, f *conditions.Facts) {
	l := s.Lag(lagPatience)
	if l.Tail >= readPatience && f.Database == nil {
		f.Database = &conditions.Fault{
			Reason: "ReadsTimeOut",
			Message: "the database takes heartbeats, but has not told for " + readPatience.String() +
				" what other replicas have committed, and linearizable reads fail: look whether something holds " +
				"locks on sqlstore's tables, and how busy the database is",
		}
	}
	switch {
	case l.Tail >= lagPatience:
		f.Lagging = &conditions.Fault{
			Reason: "TailBehind",
			Message: fmt.Sprintf("what other replicas have committed in the last %d s may not have reached the "+
				"watches of this one: look how busy the database and this machine are, and whether something holds "+
				"locks on sqlstore's tables", int(l.Tail.Seconds())),
		}
	case l.Watches > 0:
		f.Lagging = &conditions.Fault{
			Reason: "SlowWatches",
			Message: fmt.Sprintf("%d watches have been behind for %d s or more, the longest for %d s, by up to %d "+
				"revisions: they read a long history, or their clients take events more slowly than they come, or "+
				"stand still",
				l.Watches, int(lagPatience.Seconds()), int(l.Longest.Seconds()), l.Revisions),
		}
	}
}
