package load

import (
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// Failure is a request that got no answer, or an error that clients must expect of a server without its database.
type Failure struct {
	Replica    string // the client's only replica, empty for a client of all replicas
	Start, End time.Duration
	Text       string
}

// Failures returns the requests that failed, except renewals of leases, for which clients do not wait long. Stop the
// load first.
func (r *Run) Failures() []Failure {
	r.mu.Lock()
	failures := slices.Clone(r.failures)
	r.mu.Unlock()
	for _, o := range r.Journal.Ops() {
		if o.Outcome == history.Unknown {
			failures = append(failures, Failure{o.Replica, o.Start, o.End, o.String()})
		}
	}
	return failures
}

// grantFailed records that a lease was not granted.
func (r *Run) grantFailed(sent time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, Failure{Start: sent, End: r.Journal.Now(), Text: fmt.Sprintf("grant: %v", err)})
}
