package conditions

import "fmt"

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
	// ReasonWritesStopped is set if the outcome of a commit is unknown until a restart.
	ReasonWritesStopped = "WritesStopped"
)

// Facts holds the inputs of the conditions. A nil fault means that all is well.
type Facts struct {
	// Generation is the newest one requested, InForce the one in use. Refused is why they differ.
	Generation, InForce int64
	Refused             *Fault

	Stage Stage
	// Waiting is why the database is not usable yet, while starting; nil before the first attempt.
	Waiting error
	// Missing is what the configuration names but cannot be found or read.
	Missing *Fault
	// Setup describes what is set up once Stage is Serving.
	Setup string

	Stopped  *Fault // writes have stopped until a restart
	Database *Fault
	Weak     *Fault // the database may lose acknowledged writes
	NoSpace  *Fault
	Corrupt  *Fault
	Stalled  *Fault // compaction
	Held     *Fault // the database's log
	Lagging  *Fault // watches
	Expiring *Fault // certificates
}

// Conditions derives the conditions. [Set.Replace] sets the transition times.
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
		CompactionStalled: f.Stalled, CheckpointStalled: f.Held, WatchLagging: f.Lagging,
		CertificateExpiring: f.Expiring,
	}
	for _, kind := range Negative {
		if fault := faults[kind]; fault != nil {
			all = append(all, f.served(kind, True, *fault))
		}
	}
	return all
}

// served makes a condition that describes the configuration in force.
func (f *Facts) served(kind string, status Status, why Fault) Condition {
	return Condition{
		Type: kind, Status: status, ObservedGeneration: f.InForce, Reason: why.Reason,
		Message: why.Message,
	}
}

func (f *Facts) waiting() *Fault {
	return &Fault{ReasonDatabaseUnreachable, fmt.Sprintf(
		"the database is not usable yet: %v; the start retries until --datastore-wait has passed: check the database "+
			"and --datastore", f.Waiting)}
}

func (f *Facts) accepted() Condition {
	c := Condition{
		Type: Accepted, Status: True, ObservedGeneration: f.Generation, Reason: Accepted,
		Message: "the configuration is valid",
	}
	if f.Refused != nil {
		c.Status, c.Reason = False, f.Refused.Reason
		c.Message = fmt.Sprintf("generation %d of the configuration was refused, and generation %d stays in force: "+
			"%s; correct it and send SIGHUP again",
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
	return f.served(ResolvedRefs, True,
		Fault{ResolvedRefs, "the files, secrets and database that the configuration names were found"})
}

func (f *Facts) programmed() Condition {
	if f.Setup == "" {
		return f.served(Programmed, Unknown,
			Fault{ReasonPending, "schema, listeners and compactor are set up once the database is open"})
	}
	return f.served(Programmed, True, Fault{Programmed, f.Setup})
}

// ready returns the first problem that prevents serving clients.
func (f *Facts) ready() Condition {
	why := f.Stopped
	switch {
	case f.Stage == Stopping:
		why = &Fault{ReasonStopping, "the server is stopping: it finishes requests in flight; send new ones to " +
			"another server"}
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
