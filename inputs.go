package sqlstore

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/faults"
)

// inputs collects the inputs of the conditions. The monitor calls it about once a second, never concurrently.
func (s *Server) inputs(now time.Time) *conditions.Inputs {
	st := &s.state
	st.mu.Lock()
	in := &conditions.Inputs{
		Generation: st.generation, InForce: st.inForce, Refused: st.refused,
		Stage: st.stage, Waiting: st.waiting, Setup: st.setup,
	}
	opened := st.store
	st.mu.Unlock()
	in.Missing, in.Expiring = s.references(now)
	if opened == nil {
		return in
	}
	faults.Alarms(opened, in)
	if in.Stage != conditions.Serving {
		return in // the database may already be closed
	}
	faults.Writing(opened, in, now)
	if b, ok := s.backend.(backend.Durability); ok {
		in.Weak = faults.WeakSettings(b.NotDurable())
	}
	faults.Lagging(opened, in)
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
