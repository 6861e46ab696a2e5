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
	"github.com/sqlstore/sqlstore/status"
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
	reason, advice := "Invalid", "correct it and send SIGHUP again"
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		reason = "FileUnreadable"
	}
	if errors.Is(err, ErrFixed) {
		reason, advice = "FixedSetting", "restart the server to apply them, or undo the change and send SIGHUP again"
	}
	return &conditions.Fault{Reason: reason, Message: err.Error() + "; " + advice}
}

// Status is the state of a server, and the JSON answer of /status.
type Status = status.Report

// Condition is one condition of a server.
type Condition = status.Condition

// Conditions returns the conditions that the server last observed, at most about a second ago.
func (s *Server) Conditions() []Condition { return s.monitor.List() }

// Status returns the current state of the server. If ctx ends first, it contains the last observed conditions, at most
// about a second old.
func (s *Server) Status(ctx context.Context) Status { return s.fullReport(ctx) }
