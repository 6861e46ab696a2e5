package conditions

import (
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/internal/setting"
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
	// ReasonWritesStopped is set if the outcome of a commit is unknown until a restart.
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
func (in *Inputs) Conditions() []Condition {
	all := []Condition{in.accepted(), in.resolved(), in.programmed(), in.ready()}
	database := in.Database
	switch {
	case database != nil:
	case in.Stopped != nil:
		database = in.Stopped
	case in.waits():
		database = in.waiting()
	}
	faults := map[string]*Fault{
		DatabaseUnavailable: database, ConnectionsRefused: in.Full, NotDurable: in.Weak, NoSpace: in.NoSpace,
		Corrupt: in.Corrupt, NoPageChecksums: in.Bare, CompactionStalled: in.Stalled, CheckpointStalled: in.Stuck,
		WatchLagging: in.Lagging, CertificateExpiring: in.Expiring, AuditLogFailing: in.Audit, BackupStale: in.Backup,
	}
	for _, kind := range Negative {
		if fault := faults[kind]; fault != nil {
			c := in.served(kind, True, *fault)
			c.Acknowledged = slices.Contains(in.Acknowledged, kind)
			all = append(all, c)
		}
	}
	return all
}

// served makes a condition that describes the configuration in force.
func (in *Inputs) served(kind string, status Status, why Fault) Condition {
	return Condition{
		Type: kind, Status: status, ObservedGeneration: in.InForce, Reason: why.Reason,
		Message: why.Message,
	}
}

func (in *Inputs) waiting() *Fault {
	return &Fault{ReasonDatabaseUnreachable, fmt.Sprintf(
		"the database is not usable yet: %v; the start retries until %s has passed: check the database and %s",
		in.Waiting, setting.Name("DatastoreWait"), setting.Name("Datastore"))}
}

func (in *Inputs) accepted() Condition {
	c := Condition{
		Type: Accepted, Status: True, ObservedGeneration: in.Generation, Reason: Accepted,
		Message: "the configuration is valid",
	}
	if in.Refused != nil {
		c.Status, c.Reason = False, in.Refused.Reason
		c.Message = fmt.Sprintf("generation %d of the configuration was refused, and generation %d stays in force: "+
			"%s; correct it and send SIGHUP again",
			in.Generation, in.InForce, in.Refused.Message)
	}
	return c
}

func (in *Inputs) resolved() Condition {
	switch {
	case in.Missing != nil:
		return in.served(ResolvedRefs, False, *in.Missing)
	case in.waits():
		return in.served(ResolvedRefs, False, *in.waiting())
	case in.Setup == "":
		return in.served(ResolvedRefs, Unknown, Fault{ReasonPending, "the database is being opened"})
	}
	return in.served(ResolvedRefs, True,
		Fault{ResolvedRefs, "the files, secrets and database that the configuration names were found"})
}

func (in *Inputs) programmed() Condition {
	if in.Setup == "" {
		return in.served(Programmed, Unknown,
			Fault{ReasonPending, "schema, listeners and compactor are set up once the database is open"})
	}
	return in.served(Programmed, True, Fault{Programmed, in.Setup})
}

// ready returns the first problem that prevents serving clients.
func (in *Inputs) ready() Condition {
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
		why = &Fault{DatabaseUnavailable, in.Database.Message}
	case in.Weak != nil:
		why = &Fault{NotDurable, in.Weak.Message}
	case in.Corrupt != nil:
		why = &Fault{Corrupt, in.Corrupt.Message}
	case in.NoSpace != nil:
		why = &Fault{NoSpace, in.NoSpace.Message}
	case in.Unverified:
		why = &Fault{ReasonVerifying, "the rows and indexes of the database are verified first, because its server " +
			"has data_checksums=off: wait, or turn page checksums on with 'pg_checksums --enable'"}
	default:
		return in.served(Ready, True, Fault{Ready, "reads and writes are served"})
	}
	return in.served(Ready, False, *why)
}
