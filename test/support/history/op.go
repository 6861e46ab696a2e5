package history

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// Kind is what an operation does.
type Kind int

// The kinds of operations.
const (
	Put    Kind = iota // puts every one of Keys and then deletes every one of Deletes, in one transaction
	Delete             // deletes one key
	Swap               // puts one key if it is still of revision Expect, 0 for absent
	Get                // reads one key
	List               // reads a prefix, the one of Keys
	Revoke             // revokes Lease; its keys are gone at the revision of the answer
)

func (k Kind) String() string {
	return [...]string{"put", "delete", "swap", "get", "list", "revoke"}[k]
}

// Writes reports whether operations of this kind make a revision when they succeed, that of the answer.
func (k Kind) Writes() bool { return k == Put || k == Delete || k == Swap }

// Outcome is what a client knows about its operation.
type Outcome int

// The outcomes of operations.
const (
	Unknown Outcome = iota // no answer, or an error that does not settle the outcome
	Done
	// answered without a change: the compare failed, there was nothing to delete, or the lease did not exist
	Refused
)

// Op is one request of a client.
type Op struct {
	Client  int
	Replica string // the client's only replica, empty for a client of all replicas
	Kind    Kind
	Keys    []string
	Value   string   // of a write that puts; unique
	Expect  int64    // of a Swap
	Deletes []string // of a Put; all of them exist
	Lease   int64    // of a Put or a Revoke
	At      int64    // the revision that a Get or List asks for, 0 for the newest

	Start, End time.Duration // since the run's beginning, when sent and when answered
	Outcome    Outcome
	Err        string // the status code if the outcome is Unknown
	Revision   int64  // of the answer's header, 0 if it has none
	Found      []KV   // by a read, in order of keys
}

func (o *Op) String() string {
	return fmt.Sprintf("{client %d %s: %v %q deletes %q value %q expect %d lease %d at %d, %v to %v, outcome %d %s, "+
		"revision %d, found %v}", o.Client, o.Replica, o.Kind, o.Keys, o.Deletes, o.Value, o.Expect, o.Lease, o.At,
		o.Start, o.End, o.Outcome, o.Err, o.Revision, o.Found)
}

// KV is a key as returned by a read.
type KV struct {
	Key, Value                  string
	Mod, Create, Version, Lease int64
}

// Event is a version of a key, from a watch or from the table.
type Event struct {
	Key, Value string
	Deleted    bool
	// Revision is that of the write; Create and Version are 0 for a deletion.
	Revision, Create, Version int64
	Lease                     int64
	Prev                      KV // the version before, if the watch asked for it
}

// KV returns what a read finds after the event: the zero KV after a deletion.
func (e Event) KV() KV {
	if e.Deleted {
		return KV{}
	}
	return KV{e.Key, e.Value, e.Revision, e.Create, e.Version, e.Lease}
}

// Journal records what all clients of a run did. Its methods may be called from any goroutine.
type Journal struct {
	began time.Time

	mu     sync.Mutex
	next   int
	ops    []*Op
	leases map[int64]*Lease
}

// NewJournal starts a run's journal.
func NewJournal() *Journal { return &Journal{began: time.Now(), leases: map[int64]*Lease{}} }

// Now returns the time since the run's beginning.
func (j *Journal) Now() time.Duration { return time.Since(j.began) }

// Begin records an operation that is about to be sent, and gives a write its value. A revocation is of a recorded
// lease. Only End may change it afterwards.
func (j *Journal) Begin(o Op) *Op {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	if o.Kind.Writes() {
		o.Value = fmt.Sprintf("w%d", j.next)
	}
	o.Start = j.Now()
	if l := j.leases[o.Lease]; l != nil && o.Kind == Revoke {
		l.Revoking = o.Start
	} else if l != nil {
		l.Keys = append(l.Keys, o.Keys...)
	}
	j.ops = append(j.ops, &o)
	return &o
}

// End records how an operation ended; change fills in the answer.
func (j *Journal) End(o *Op, change func(*Op)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o.End = j.Now()
	change(o)
	if o.Kind == Revoke && o.Outcome == Done {
		j.leases[o.Lease].Revoked = o.Revision
	}
}

// Settle forgets the operations so far, which have ended, and the leases that no server holds: checks have established
// what became of them.
func (j *Journal) Settle(held map[int64]Held) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ops = nil
	maps.DeleteFunc(j.leases, func(id int64, _ *Lease) bool { _, ok := held[id]; return !ok })
}

// Ops returns the operations so far. Those in progress may still change: wait for the clients first, or use the copies
// from [Journal.Since].
func (j *Journal) Ops() []*Op {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*Op(nil), j.ops...)
}

// Since calls f with a copy of each ended operation that was sent at or after t.
func (j *Journal) Since(t time.Duration, f func(Op)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.ops) - 1; i >= 0 && j.ops[i].Start >= t; i-- {
		if o := *j.ops[i]; o.End > 0 {
			f(o)
		}
	}
}
