package sqlstore

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/backup"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/status"
)

// sizeTimeout is how long a report waits for the database's size, which is read again after sizePeriod.
const (
	sizeTimeout = 2 * time.Second
	sizePeriod  = time.Second
)

// reporter presents a server to the metrics and the health checks.
type reporter struct{ s *Server }

// Conditions implements [telemetry.Conditions].
func (r reporter) Conditions() []status.Condition { return r.s.monitor.List() }

// StatusContext implements [telemetry.Conditions].
func (r reporter) StatusContext(ctx context.Context) status.Report { return r.s.report(ctx) }

// FullStatusContext implements [telemetry.Conditions].
func (r reporter) FullStatusContext(ctx context.Context) status.Report {
	return r.s.fullReport(ctx)
}

func (s *Server) report(ctx context.Context) status.Report {
	seen := s.monitor.CheckContext(ctx)
	r := status.Report{
		Version: Version, EtcdVersion: EtcdVersion, Conditions: seen,
		Time: time.Now().UTC().Truncate(time.Second),
	}
	st := &s.state
	st.mu.Lock()
	opened := st.store
	r.Name, r.Datastore, r.Generation = st.name, st.datastore, st.generation
	st.mu.Unlock()
	if s.certs != nil {
		for _, v := range s.certs.State().Served {
			r.Certificates = append(r.Certificates, status.Certificate{File: v.File, Expires: seconds(v.NotAfter)})
		}
	}
	if opened == nil {
		return r
	}
	r.Revision, r.Compacted = opened.Revision(), opened.Compacted()
	r.Member, r.Leader = strconv.FormatUint(opened.Settings().MemberID, 16), strconv.FormatUint(opened.Leader(), 16)
	members := opened.Members()
	r.Members, r.LagSeconds = max(1, len(members)), opened.Behind().Seconds()
	r.AuthEnabled = opened.Auth().Enabled()
	for i := range members {
		r.Replicas = append(r.Replicas, status.Replica{
			ID: strconv.FormatUint(members[i].ID, 16), Name: members[i].Name,
		})
	}
	for _, a := range opened.Alarms() {
		r.Alarms = append(r.Alarms, status.Alarm{
			Type: alarmType(a.Kind), Member: strconv.FormatUint(a.Member, 16),
		})
	}
	if c := s.compacting.state(); c != nil {
		r.Compaction = describe(c)
	}
	if b := s.backups.Load(); b != nil {
		r.Backup = describeBackup(s.backupName, b.State())
	}
	if f := opened.LastFault(); f != nil {
		r.LastError = &status.DatabaseError{Time: seconds(f.At), Message: f.Err.Error()}
	}
	return r
}

// alarmType returns the name that etcd has for an alarm; clients may raise others by number.
func alarmType(kind store.AlarmKind) string {
	switch kind {
	case store.AlarmNoSpace:
		return "NOSPACE"
	case store.AlarmCorrupt:
		return "CORRUPT"
	}
	return strconv.Itoa(int(kind))
}

// describe returns a compactor's state for a report.
func describe(c *compactor.State) *status.Compaction {
	d := &status.Compaction{
		Mode: cmp.Or(string(c.Mode), "off"), Retention: c.Retention, Leads: c.Leads, Compacted: c.Compacted,
		Purged: c.Purged, Last: seconds(c.Last), Next: seconds(c.Next),
	}
	if c.Stall != nil {
		d.Stalled, d.StalledSince = c.Stall.Reason, seconds(c.Stall.Since)
	}
	return d
}

// describeBackup returns the state of backups for a report.
func describeBackup(destination string, state backup.State) *status.Backup {
	b := &status.Backup{Destination: destination, Leads: state.Leads}
	if state.Leads && !state.Saved.IsZero() {
		b.Saved, b.Revision = seconds(state.Saved), state.Revision
	}
	return b
}

// seconds returns a time in whole seconds of UTC.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// fullReport is report with the database's size, for which it asks the database.
func (s *Server) fullReport(ctx context.Context) status.Report {
	r := s.report(ctx)
	s.state.mu.Lock()
	opened := s.state.store
	s.state.mu.Unlock()
	if opened == nil {
		return r
	}
	r.Size = s.size.read(ctx, func(ctx context.Context) *status.Size {
		st, err := opened.Status(ctx)
		if err != nil {
			return nil
		}
		size := &status.Size{
			Total: st.DBSize, InUse: st.DBSizeInUse, Quota: st.Quota, Keys: st.Keys,
			WAL: st.DBWAL,
		}
		if b, ok := s.backend.(backend.OnDisk); ok {
			if free, err := b.FreeDisk(); err == nil {
				size.FreeDisk = &free
			}
		}
		return size
	})
	return r
}

// sizeReader reads the database's size for reports: anybody may ask for one, so it asks the database at most once at a
// time and once per sizePeriod.
type sizeReader struct {
	reading sync.Mutex
	last    atomic.Pointer[status.Size]
	at      time.Time // when last was read
}

// read returns the size, nil if it is not known.
func (x *sizeReader) read(ctx context.Context, query func(context.Context) *status.Size) *status.Size {
	if !x.reading.TryLock() {
		return x.last.Load()
	}
	defer x.reading.Unlock()
	if time.Since(x.at) >= sizePeriod {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sizeTimeout) // it is for others, too
		defer cancel()
		x.last.Store(query(ctx))
		x.at = time.Now()
	}
	return x.last.Load()
}
