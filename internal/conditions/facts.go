package conditions

import "fmt"

// Stage is what a server is about.
type Stage int

// The stages, in their order.
const (
	Starting Stage = iota // waits for its database, migrates it, sets up what serves
	Serving
	Stopping
)

// Fault is something that is not as it should be.
type Fault struct {
	Reason  string // one word in CamelCase
	Message string // what it is, and what to do about it
}

// Reasons of the conditions that this package makes up by itself.
const (
	ReasonPending  = "Pending"  // nobody can tell yet
	ReasonStarting = "Starting" // not Ready yet
	ReasonStopping = "Stopping" // not Ready any more
	// ReasonDatabaseUnreachable is told while a start waits for its database.
	ReasonDatabaseUnreachable = "DatabaseUnreachable"
	// ReasonWritesStopped is told when the outcome of a commit is unknown and only a restart can tell it.
	ReasonWritesStopped = "WritesStopped"
)

// Facts is what the conditions are made of. A nil fault means that all is well.
type Facts struct {
	// Generation is the newest that was asked for, InForce the one that is served. Refused is why they differ.
	Generation, InForce int64
	Refused             *Fault

	Stage Stage
	// Waiting is why the database cannot be used yet, while starting; nil before it was tried.
	Waiting error
	// Missing is what the configuration names and cannot be found or read.
	Missing *Fault
	// Setup says what is set up once Stage is Serving.
	Setup string

	Stopped  *Fault // writes have stopped until a restart
	Database *Fault
	Weak     *Fault // the database keeps not all that it acknowledges
	NoSpace  *Fault
	Corrupt  *Fault
	Stalled  *Fault // compaction
	Held     *Fault // the database's log
	Lagging  *Fault // watches
	Expiring *Fault // certificates
}

// Conditions judges the facts. Transition times are left to [Set.Replace].
func (f *Facts) Conditions() []Condition {
	all := []Condition{f.accepted(), f.resolved(), f.programmed(), f.ready()}
	database := f.Database
	switch {
	case database != nil:
	case f.Stopped != nil:
		database = f.Stopped
	case f.Stage == Starting && f.Waiting != nil:
		database = f.waiting()
	}
	faults := map[string]*Fault{
		DatabaseUnavailable: database, NotDurable: f.Weak, NoSpace: f.NoSpace, Corrupt: f.Corrupt,
		CompactionStalled: f.Stalled, CheckpointStalled: f.Held, WatchLagging: f.Lagging, CertificateExpiring: f.Expiring,
	}
	for _, kind := range Negative {
		if fault := faults[kind]; fault != nil {
			all = append(all, f.served(kind, True, *fault))
		}
	}
	return all
}

// served makes a condition that speaks of the configuration in force.
func (f *Facts) served(kind string, status Status, why Fault) Condition {
	return Condition{Type: kind, Status: status, ObservedGeneration: f.InForce, Reason: why.Reason, Message: why.Message}
}

func (f *Facts) waiting() *Fault {
	return &Fault{ReasonDatabaseUnreachable, fmt.Sprintf(
		"the database cannot be used yet: %v; the start tries again until --datastore-wait is over: look at the database and at --datastore", f.Waiting)}
}

func (f *Facts) accepted() Condition {
	c := Condition{Type: Accepted, Status: True, ObservedGeneration: f.Generation, Reason: Accepted, Message: "the configuration is valid"}
	if f.Refused != nil {
		c.Status, c.Reason = False, f.Refused.Reason
		c.Message = fmt.Sprintf("generation %d of the configuration was refused, and generation %d stays in force: %s; correct it and send SIGHUP again",
			f.Generation, f.InForce, f.Refused.Message)
	}
	return c
}

func (f *Facts) resolved() Condition {
	switch {
	case f.Missing != nil:
		return f.served(ResolvedRefs, False, *f.Missing)
	case f.Stage == Starting && f.Waiting != nil:
		return f.served(ResolvedRefs, False, *f.waiting())
	case f.Setup == "":
		return f.served(ResolvedRefs, Unknown, Fault{ReasonPending, "the database is being opened"})
	}
	return f.served(ResolvedRefs, True, Fault{ResolvedRefs, "the files, secrets and the database that the configuration names were found"})
}

func (f *Facts) programmed() Condition {
	if f.Setup == "" {
		return f.served(Programmed, Unknown, Fault{ReasonPending, "schema, listeners and compactor are set up once the database is open"})
	}
	return f.served(Programmed, True, Fault{Programmed, f.Setup})
}

// ready tells the first thing that keeps clients from being served.
func (f *Facts) ready() Condition {
	why := f.Stopped
	switch {
	case f.Stage == Stopping:
		why = &Fault{ReasonStopping, "the server is stopping: requests in flight are finished, new ones belong to another server"}
	case f.Stage == Starting && f.Waiting != nil:
		why = f.waiting()
	case f.Stage == Starting:
		why = &Fault{ReasonStarting, "the server is starting"}
	case why != nil:
	case f.Database != nil:
		why = &Fault{DatabaseUnavailable, f.Database.Message}
	case f.Weak != nil:
		why = &Fault{NotDurable, f.Weak.Message}
	case f.Corrupt != nil:
		why = &Fault{Corrupt, f.Corrupt.Message}
	case f.NoSpace != nil:
		why = &Fault{NoSpace, f.NoSpace.Message}
	default:
		return f.served(Ready, True, Fault{Ready, "reads and writes are served"})
	}
	return f.served(Ready, False, *why)
}
