package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/faults"
	"github.com/sqlstore/sqlstore/internal/store"
)

// ErrFixed is an error for [Server.RefuseReload]. It means that the new configuration changes settings that require a
// restart.
var ErrFixed = errors.New("these settings cannot change while the server runs")

// verifyAtStart is how long a start waits for the verification of its database. A longer one shows in the condition
// Ready.
const verifyAtStart = time.Second

// state holds the inputs of the conditions that a check does not collect itself.
type state struct {
	stopMonitor context.CancelFunc

	mu                  sync.Mutex
	generation, inForce int64
	refused             *conditions.Fault
	acknowledged        []string
	stage               conditions.Stage
	waiting             error
	waits               chan struct{} // closed once the start has waited for the database
	setup               string
	store               *store.Store // nil until it is open

	datastore, name, passwordFile string
}

// monitorConditions starts to monitor the conditions of a server that starts with cfg.
func (s *Server) monitorConditions(cfg *Config) {
	st := &s.state
	st.generation, st.inForce = 1, 1
	st.name, st.passwordFile = cfg.Name, cfg.DatastorePasswordFile
	st.acknowledged = slices.Clone(cfg.AcknowledgedConditions)
	st.datastore, _ = cfg.Database() // opening it reports the error
	s.monitor = conditions.NewMonitor(s.log, s.inputs)
	s.monitor.Check()
	ctx, cancel := context.WithCancel(context.Background())
	st.stopMonitor = cancel
	s.wg.Go(func() { s.monitor.Run(ctx) })
}

// inputs collects the inputs of the conditions. The monitor calls it about once a second, never concurrently.
func (s *Server) inputs(now time.Time) *conditions.Inputs {
	st := &s.state
	st.mu.Lock()
	in := &conditions.Inputs{
		Generation: st.generation, InForce: st.inForce, Refused: st.refused,
		Stage: st.stage, Waiting: st.waiting, Setup: st.setup, Acknowledged: st.acknowledged,
	}
	opened := st.store
	st.mu.Unlock()
	in.Missing, in.Expiring = s.references(now)
	if s.audit != nil {
		in.Audit = faults.Audit(s.audit.Err())
	}
	if opened == nil {
		return in
	}
	faults.Alarms(opened, in)
	if in.Stage != conditions.Serving {
		return in // the database may already be closed
	}
	faults.Writing(opened, in, now)
	in.Unverified = !isClosed(opened.Verified())
	if b, ok := s.backend.(backend.Pooled); ok {
		in.Full = faults.Connections(b.Connections(), now)
	}
	if b, ok := s.backend.(backend.Durability); ok {
		in.Weak = faults.WeakSettings(b.NotDurable())
	}
	if b, ok := s.backend.(backend.PageChecksums); ok {
		in.Bare = faults.PageChecksums(b.NoPageChecksums())
	}
	faults.Lagging(opened, in)
	if r := s.backups.Load(); r != nil {
		changes, full := r.Intervals()
		in.Backup = faults.Backup(r.State(), changes, full, now)
	}
	if c := s.compacting.state(); c != nil && c.Stall != nil {
		in.Stalled = &conditions.Fault{Reason: c.Stall.Reason, Message: c.Stall.Message}
	}
	return in
}

// references checks the files that the configuration names.
func (s *Server) references(now time.Time) (missing, expiring *conditions.Fault) {
	if s.certs != nil {
		missing, expiring = faults.Certificates(s.certs, now)
	}
	if path := s.state.passwordFile; path != "" && missing == nil {
		missing = faults.PasswordFile(path)
	}
	return missing, expiring
}

// certificateEnds returns when the certificates in use expire, by file.
func (s *Server) certificateEnds() map[string]time.Time {
	ends := map[string]time.Time{}
	for _, v := range s.certs.State().Served {
		ends[v.File] = v.NotAfter
	}
	return ends
}

// wait records why the database is not usable yet, or nil once it is.
func (st *state) wait(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.waiting = err
	if err != nil && !isClosed(st.waits) {
		close(st.waits)
	}
}

// enter moves the conditions to another stage.
func (s *Server) enter(stage conditions.Stage) {
	st := &s.state
	st.mu.Lock()
	st.stage = stage
	if stage == conditions.Serving {
		st.store, st.setup = s.store, s.setup()
	}
	st.mu.Unlock()
	s.monitor.Check()
	if stage == conditions.Serving && !isClosed(s.store.Verified()) {
		go func() { // until the store is closed, which waits for everything else
			<-s.store.Verified()
			s.monitor.Check()
		}()
	}
}

// awaitVerified waits for the verification of the database, so that a server over a small one is Ready at once.
func (s *Server) awaitVerified(ctx context.Context) {
	select {
	case <-s.store.Verified():
	case <-time.After(verifyAtStart):
	case <-ctx.Done():
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// setup describes what is set up.
func (s *Server) setup() string {
	served := strings.Join(s.clients, ", ")
	if len(s.objectURLs) > 0 {
		served += ", the list/watch API on " + strings.Join(s.objectURLs, ", ")
	}
	return fmt.Sprintf("the schema is migrated, clients are served on %s, automatic compaction is %s", served,
		s.compacting.settings())
}

// state returns the compactor's state, or nil if there is no compactor.
func (r *compacting) state() *compactor.State {
	r.Lock()
	c := r.compactor
	r.Unlock()
	if c == nil {
		return nil
	}
	st := c.State()
	return &st
}

// settings describes what is compacted automatically.
func (r *compacting) settings() string {
	c := r.state()
	if c == nil || c.Mode == compactor.Off {
		return "off"
	}
	return fmt.Sprintf("%s and keeps %s", c.Mode, c.Retention)
}

// reloaded records a reload and its result. acknowledged counts if err is nil.
func (s *Server) reloaded(acknowledged []string, err error) {
	st := &s.state
	st.mu.Lock()
	st.generation++
	st.refused = refusal(err)
	if err == nil {
		st.inForce, st.acknowledged = st.generation, slices.Clone(acknowledged)
		st.setup = s.setup()
	}
	st.mu.Unlock()
	s.monitor.Check()
}

// RefuseReload reports in the conditions that new settings were rejected before they reached [Server.Reload], and why.
// Their generation is not accepted, and the previous settings stay in force. err must not contain secrets.
func (s *Server) RefuseReload(err error) { s.reloaded(nil, err) }

// refusal returns why a reload was refused.
func refusal(err error) *conditions.Fault {
	if err == nil {
		return nil
	}
	reason := "Invalid"
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		reason = "FileUnreadable"
	}
	if errors.Is(err, ErrFixed) {
		reason = "FixedSetting"
	}
	return &conditions.Fault{Reason: reason, Message: err.Error()}
}

// Status is the state of a server, and the JSON answer of /status. Revisions and members are current; they are 0 and ""
// until the database is open.
type Status struct {
	// Name is the name of the member, Version that of sqlstore, EtcdVersion that of the etcd API.
	Name        string `json:"name"`
	Version     string `json:"version"`
	EtcdVersion string `json:"etcdVersion"`
	// Time is the server's clock, for the age of a condition.
	Time time.Time `json:"time"`
	// Generation is the newest generation of the configuration: 1 at the start, plus one for each reload, even if
	// refused.
	Generation int64       `json:"generation"`
	Conditions []Condition `json:"conditions"`

	// Datastore names the database, without secrets.
	Datastore string `json:"datastore"`
	// Revision is the last one published on this server, Compacted the oldest that can be read.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Member and Leader are ids in hexadecimal, as etcd writes them. Leader is the replica that holds the maintenance
	// lease; Members counts the live replicas.
	Member  string `json:"member"`
	Leader  string `json:"leader"`
	Members int    `json:"members"`
	// Replicas are the live replicas over Postgres, in order of their ids, including this one; empty on SQLite.
	Replicas []Replica `json:"replicas,omitempty"`
	// LagSeconds is the age of the latest moment before which every commit of any replica is known to be published on
	// this server: about 1 at most in normal operation, 0 on SQLite.
	LagSeconds float64 `json:"lagSeconds"`
	// Alarms are the raised alarms, of all replicas.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Certificates are those in use, empty without TLS.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Compaction is the state of the compactor, nil until it runs.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Backup is nil without continuous backups, and until they run.
	Backup *BackupStatus `json:"backup,omitempty"`
	// Size is nil until the database is open, and while it does not answer.
	Size *Size `json:"size,omitempty"`
	// LastError is the last commit that failed since the start, nil if none has.
	LastError *DatabaseError `json:"lastError,omitempty"`
}

// Replica is a live replica. Its ID is in hexadecimal.
type Replica struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Alarm is a raised alarm: its type, NOSPACE or CORRUPT, or the number of another one, and the id, in hexadecimal, of
// the member for which it is raised.
type Alarm struct {
	Type   string `json:"type"`
	Member string `json:"member"`
}

// Certificate is a file that is in use, the server's own certificate or the authority of its clients, and when it
// expires.
type Certificate struct {
	File    string    `json:"file"`
	Expires time.Time `json:"expires"`
}

// Compaction is the state of the compactor on one server.
type Compaction struct {
	// Mode is periodic, revision or off. Retention is the history to keep, in the unit of the mode.
	Mode      string `json:"mode"`
	Retention string `json:"retention,omitempty"`
	// Leads reports that this server compacts and deletes.
	Leads bool `json:"leads"`
	// Compacted is the oldest readable revision. Purged is the revision up to which superseded rows are deleted, or -1
	// if this server does not know.
	Compacted int64 `json:"compacted"`
	Purged    int64 `json:"purged"`
	// Last is when this server last compacted automatically, Next when it plans to do so again.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Stalled is one CamelCase word for what is in the way, "" if nothing is, StalledSince since when. The condition
	// CompactionStalled has a message.
	Stalled      string    `json:"stalled,omitempty"`
	StalledSince time.Time `json:"stalledSince,omitzero"`
}

// BackupStatus is the state of the continuous backups on one server.
type BackupStatus struct {
	// Destination is [Backups].Name.
	Destination string `json:"destination"`
	// Leads reports that this server makes them. The rest is known only there.
	Leads bool `json:"leads"`
	// Saved is when everything committed was last saved, up to Revision.
	Saved    time.Time `json:"saved,omitzero"`
	Revision int64     `json:"revision,omitempty"`
}

// Size is the space that a database takes, in bytes.
type Size struct {
	// Total is what it takes on disk, of which InUse is not free for reuse.
	Total int64 `json:"total"`
	InUse int64 `json:"inUse"`
	// Quota is the size that raises the NOSPACE alarm, 0 if none does.
	Quota int64 `json:"quota"`
	// FreeDisk is what the disk of a SQLite database has left, 0 on Postgres.
	FreeDisk int64 `json:"freeDisk"`
	// WAL is what the write-ahead log of a SQLite database takes besides Total, 0 on Postgres.
	WAL int64 `json:"wal"`
	// Keys is the number of keys.
	Keys int64 `json:"keys"`
}

// DatabaseError is an error of the database, and when it happened.
type DatabaseError struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// Condition is one condition of a server, with the fields and the JSON of Kubernetes' metav1.Condition.
//
// Accepted, ResolvedRefs, Programmed and Ready are always present, and True in a healthy server. DatabaseUnavailable,
// ConnectionsRefused, NotDurable, NoSpace, Corrupt, NoPageChecksums, CompactionStalled, CheckpointStalled,
// WatchLagging, CertificateExpiring, AuditLogFailing and BackupStale are present only while they are True.
type Condition struct {
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status string `json:"status"`
	// ObservedGeneration is the generation of the configuration that the condition describes: the newest one for
	// Accepted, the one in force for all others.
	ObservedGeneration int64 `json:"observedGeneration"`
	// LastTransitionTime is when Status last changed, in whole seconds.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason is one CamelCase word, for programs.
	Reason string `json:"reason"`
	// Message tells an operator what the condition means and what to do about it.
	Message string `json:"message"`
	// Acknowledged reports that Config.AcknowledgedConditions lists the type.
	Acknowledged bool `json:"acknowledged,omitempty"`
}

// Conditions returns the conditions that the server last observed, at most about a second ago.
func (s *Server) Conditions() []Condition { return published(s.monitor.List()) }

// Status returns the current state of the server. If ctx ends first, it contains the last observed conditions, at most
// about a second old.
func (s *Server) Status(ctx context.Context) Status {
	r := s.fullReport(ctx)
	return Status{
		Name: r.Name, Version: r.Version, EtcdVersion: r.EtcdVersion, Time: r.Time, Generation: r.Generation,
		Conditions: published(r.Conditions), Datastore: r.Datastore, Revision: r.Revision, Compacted: r.Compacted,
		Member: r.Member, Leader: r.Leader, Members: r.Members,
		Replicas:     convert(r.Replicas, func(x conditions.Replica) Replica { return Replica(x) }),
		LagSeconds:   r.LagSeconds,
		Alarms:       convert(r.Alarms, func(x conditions.Alarm) Alarm { return Alarm(x) }),
		Certificates: convert(r.Certificates, func(x conditions.Certificate) Certificate { return Certificate(x) }),
		Compaction:   (*Compaction)(r.Compaction),
		Backup:       (*BackupStatus)(r.Backup), Size: (*Size)(r.Size), LastError: (*DatabaseError)(r.LastError),
	}
}

// convert returns what to makes of all; nil stays nil, as JSON leaves it out.
func convert[A, B any](all []A, to func(A) B) (out []B) {
	for _, a := range all {
		out = append(out, to(a))
	}
	return out
}

func published(all []conditions.Condition) []Condition {
	out := make([]Condition, len(all))
	for i, c := range all {
		out[i] = Condition{
			c.Type, string(c.Status), c.ObservedGeneration, c.LastTransitionTime, c.Reason, c.Message, c.Acknowledged,
		}
	}
	return out
}
