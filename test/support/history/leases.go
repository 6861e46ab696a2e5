package history

import (
	"fmt"
	"strings"
	"time"
)

// Lease is a lease as its client knows it.
type Lease struct {
	ID  int64
	TTL time.Duration // as granted
	// Renewed is when the client sent the last answered request that granted or renewed the lease.
	Renewed time.Duration
	// Missed is when an answer first reported that the lease does not exist; 0 if never.
	Missed time.Duration
	Keys   []string // put with it, acknowledged or not
}

// Granted records a new lease, from a request sent at the given time.
func (j *Journal) Granted(id int64, ttl, sent time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases[id] = &Lease{ID: id, TTL: ttl, Renewed: sent}
}

// Renewed records that a keep-alive, sent at the given time, was answered.
func (j *Journal) Renewed(id int64, sent time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases[id].Renewed = max(j.leases[id].Renewed, sent)
}

// Missed records that a server reported the lease as not found.
func (j *Journal) Missed(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l := j.leases[id]; l.Missed == 0 {
		l.Missed = j.Now()
	}
}

// Attach records keys that are about to be put with a lease.
func (j *Journal) Attach(id int64, keys ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases[id].Keys = append(j.leases[id].Keys, keys...)
}

// Leases returns copies of all leases.
func (j *Journal) Leases() []Lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	leases := make([]Lease, 0, len(j.leases))
	for _, l := range j.leases {
		leases = append(leases, *l)
	}
	return leases
}

// Leases checks that no lease expired early. A lease has expired when a watch shows the deletion of its keys, or an
// answer reports that it does not exist. seen is when a watch first saw each revision. With ended, all leases must have
// expired. [Writes] and [Order] check that a lease expires once, with all its keys.
func Leases(leases []Lease, events []Event, seen map[int64]time.Duration, ended bool) error {
	at := map[string]int64{} // key -> revision of its deletion
	there := map[string]bool{}
	for _, e := range events {
		if !strings.HasPrefix(e.Key, LeasePrefix) {
			continue
		}
		if e.Deleted {
			if at[e.Key] != 0 {
				return fmt.Errorf("key %q of a lease is deleted twice, at revisions %d and %d", e.Key, at[e.Key],
					e.Revision)
			}
			at[e.Key] = e.Revision
		}
		there[e.Key] = !e.Deleted
	}
	for _, l := range leases {
		over := l.Missed
		var rev int64
		for _, k := range l.Keys {
			switch {
			case there[k] && ended:
				return fmt.Errorf("key %q of lease %d still exists", k, l.ID)
			case at[k] == 0:
			case rev != 0 && at[k] != rev:
				return fmt.Errorf("lease %d expired at revision %d and at %d", l.ID, rev, at[k])
			default:
				rev = at[k]
			}
		}
		if t, ok := seen[rev]; ok && (over == 0 || t < over) {
			over = t
		}
		if over != 0 && over < l.Renewed+l.TTL {
			return fmt.Errorf("lease %d expired by %v, %v after it was renewed; its TTL is %v", l.ID, over,
				over-l.Renewed, l.TTL)
		}
	}
	return nil
}
