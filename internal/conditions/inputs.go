package conditions

import (
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/status"
)

// Stage is the phase in a server's life.
type Stage int

// The stages, in order.
const (
	Starting Stage = iota // waits for its database, migrates it, sets up listeners
	Serving
	Stopping
)

// Fault is something that is wrong.
type Fault struct {
	Reason  string // one CamelCase word
	Message string // what is wrong, and what to do about it
}

// Reasons that this package sets itself.
const (
	ReasonPending  = "Pending"  // not known yet
	ReasonStarting = "Starting" // not Ready yet
	ReasonStopping = "Stopping" // no longer Ready
	// ReasonDatabaseUnreachable is set while a start waits for its database.
	ReasonDatabaseUnreachable = "DatabaseUnreachable"
	// ReasonVerifying is set while a start verifies a database whose server does not notice damage by itself.
	ReasonVerifying = "Verifying"
	// ReasonWritesStopped is set if writes are refused until a restart.
	ReasonWritesStopped = "WritesStopped"
)

// Inputs holds the inputs of the conditions. A nil fault means that all is well.
type Inputs struct {
	// Generation is the newest one requested, InForce the one in use. Refused is why they differ.
	Generation, InForce int64
	Refused             *Fault
	// Acknowledged are the types of conditions that the configuration acknowledges.
	Acknowledged []string

	Stage Stage
	// Waiting is why the database is not usable yet, while starting; nil before the first attempt.
	Waiting error
	// Missing is what the configuration names but cannot be found or read.
	Missing *Fault
	// Setup describes what is set up once Stage is Serving.
	Setup string

	Stopped  *Fault // writes have stopped until a restart
	Database *Fault
	Full     *Fault // the database server refuses connections
	Weak     *Fault // the database may lose acknowledged writes
	NoSpace  *Fault
	Corrupt  *Fault
	Bare     *Fault // the database's pages have no checksums
	Stalled  *Fault // compaction
	Stuck    *Fault // the database's log
	Lagging  *Fault // watches
	Expiring *Fault // certificates
	Audit    *Fault // the audit log
	Backup   *Fault // the backups

	Unverified bool // reads wait for the first verification of the database
}

// stopping returns the inputs of a server that stops. It no longer observes its faults, so those that it observed last
// remain: that it stops does not repair anything.
func (in *Inputs) stopping(last *Inputs) *Inputs {
	retained := *last
	retained.Stage = in.Stage
	retained.Generation, retained.InForce, retained.Refused = in.Generation, in.InForce, in.Refused
	retained.Acknowledged = in.Acknowledged
	return &retained
}

// waits reports whether the database has not been usable so far, also when the server stops before it is.
func (in *Inputs) waits() bool { return in.Stage != Serving && in.Waiting != nil }

// Conditions derives the conditions. [Set.Replace] sets the transition times.
func (in *Inputs) Conditions() []status.Condition {
	all := []status.Condition{in.accepted(), in.resolved(), in.programmed(), in.ready()}
	database := in.Database
	switch {
	case database != nil:
	case in.Stopped != nil:
		database = in.Stopped
	case in.waits():
		database = in.waiting()
	}
	faults := map[string]*Fault{
		status.DatabaseUnavailable: database, status.ConnectionsRefused: in.Full, status.NotDurable: in.Weak,
		status.NoSpace: in.NoSpace, status.Corrupt: in.Corrupt, status.NoPageChecksums: in.Bare,
		status.CompactionStalled: in.Stalled, status.CheckpointStalled: in.Stuck, status.WatchLagging: in.Lagging,
		status.CertificateExpiring: in.Expiring, status.AuditLogFailing: in.Audit, status.BackupStale: in.Backup,
	}
	for _, kind := range status.Negative {
		if fault := faults[kind]; fault != nil {
			c := in.served(kind, status.True, *fault)
			c.Acknowledged = slices.Contains(in.Acknowledged, kind)
			all = append(all, c)
		}
	}
	return all
}

// served makes a condition that describes the configuration in force.
func (in *Inputs) served(kind, value string, why Fault) status.Condition {
	return status.Condition{
		Type: kind, Status: value, ObservedGeneration: in.InForce, Reason: why.Reason,
		Message: why.Message,
	}
}

func (in *Inputs) waiting() *Fault {
	return &Fault{ReasonDatabaseUnreachable, fmt.Sprintf(
		"the database is not usable yet: %v; the start retries until %s has passed: check the database and %s",
		in.Waiting, setting.Name("DatastoreWait"), setting.Name("Datastore"))}
}

func (in *Inputs) accepted() status.Condition {
	c := status.Condition{
		Type: status.Accepted, Status: status.True, ObservedGeneration: in.Generation, Reason: status.Accepted,
		Message: "the configuration is valid",
	}
	if in.Refused != nil {
		c.Status, c.Reason = status.False, in.Refused.Reason
		c.Message = fmt.Sprintf("generation %d of the configuration was refused, and generation %d stays in force: "+
			"%s",
			in.Generation, in.InForce, in.Refused.Message)
	}
	return c
}

func (in *Inputs) resolved() status.Condition {
	switch {
	case in.Missing != nil:
		return in.served(status.ResolvedRefs, status.False, *in.Missing)
	case in.waits():
		return in.served(status.ResolvedRefs, status.False, *in.waiting())
	case in.Setup == "":
		return in.served(status.ResolvedRefs, status.Unknown, Fault{ReasonPending, "the database is being opened"})
	}
	return in.served(status.ResolvedRefs, status.True,
		Fault{status.ResolvedRefs, "the files, secrets and database that the configuration names were found"})
}

func (in *Inputs) programmed() status.Condition {
	if in.Setup == "" {
		return in.served(status.Programmed, status.Unknown,
			Fault{ReasonPending, "schema, listeners and compactor are set up once the database is open"})
	}
	return in.served(status.Programmed, status.True, Fault{status.Programmed, in.Setup})
}

// ready returns the first problem that prevents serving clients.
func (in *Inputs) ready() status.Condition {
	why := in.Stopped
	switch {
	case in.Stage == Stopping:
		why = &Fault{ReasonStopping, "the server is stopping: it finishes requests in flight; send new ones to " +
			"another server"}
	case in.waits():
		why = in.waiting()
	case in.Stage == Starting:
		why = &Fault{ReasonStarting, "the server is starting"}
	case why != nil:
	case in.Database != nil:
		why = &Fault{status.DatabaseUnavailable, in.Database.Message}
	case in.Weak != nil:
		why = &Fault{status.NotDurable, in.Weak.Message}
	case in.Corrupt != nil:
		why = &Fault{status.Corrupt, in.Corrupt.Message}
	case in.NoSpace != nil:
		why = &Fault{status.NoSpace, in.NoSpace.Message}
	case in.Unverified:
		why = &Fault{ReasonVerifying, "the rows and indexes of the database are verified first, because its server " +
			"has data_checksums=off: wait, or turn page checksums on with 'pg_checksums --enable'"}
	default:
		return in.served(status.Ready, status.True, Fault{status.Ready, "reads and writes are served"})
	}
	return in.served(status.Ready, status.False, *why)
}
