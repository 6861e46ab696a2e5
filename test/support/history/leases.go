package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Lease is a lease as its client knows it.
type Lease struct {
	ID  int64
	TTL time.Duration // as granted
	// Renewed is when the client sent the last answered request that granted or renewed the lease; 0 if none was
	// answered.
	Renewed time.Duration
	// Missed is when an answer first reported that the lease does not exist; 0 if never.
	Missed time.Duration
	// Revoking is when the client sent a revocation, 0 if never; Revoked is the revision of its answer, 0 if none.
	Revoking time.Duration
	Revoked  int64
	Keys     []string // put with it, acknowledged or not
}

// Granted records a new lease, from a request sent at the given time. 0 stands for a request that is about to be sent:
// Renewed then records its answer.
func (j *Journal) Granted(id int64, ttl, sent time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases[id] = &Lease{ID: id, TTL: ttl, Renewed: sent}
}

// Renewed records that a keep-alive or a grant, sent at the given time, was answered.
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

// Leases checks that no lease ended early, or after the answer to its revocation. A lease has ended when a watch shows
// the deletion of its keys, or an answer reports that it does not exist. seen is when a watch first saw each revision.
// With ended, all leases must have ended. [Writes] and [Order] check that a lease ends once, with all its keys.
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
			case l.Revoked != 0 && at[k] > l.Revoked:
				return fmt.Errorf("lease %d was revoked by revision %d, its key %q deleted at %d", l.ID, l.Revoked, k,
					at[k])
			case rev != 0 && at[k] != rev:
				return fmt.Errorf("lease %d expired at revision %d and at %d", l.ID, rev, at[k])
			default:
				rev = at[k]
			}
		}
		if t, ok := seen[rev]; ok && (over == 0 || t < over) {
			over = t
		}
		earliest := l.Renewed + l.TTL
		if l.Revoking != 0 {
			earliest = min(earliest, l.Revoking)
		}
		if over != 0 && over < earliest {
			return fmt.Errorf("lease %d expired by %v, %v after it was renewed; its TTL is %v", l.ID, over,
				over-l.Renewed, l.TTL)
		}
	}
	return nil
}

// Held is a lease as a server shows it.
type Held struct {
	TTL, Left time.Duration // as granted, and what is left of it
	Keys      []string
}

// HeldLeases checks the leases that a server holds against what clients know about them, and against the keys. A lease
// whose grant or revocation has no answer may exist or not.
func HeldLeases(leases []Lease, base Base, held map[int64]Held) error {
	attached := map[int64][]string{}
	for _, key := range slices.Sorted(maps.Keys(base)) {
		if id := base[key].KV().Lease; id != 0 {
			attached[id] = append(attached[id], key)
		}
	}
	for id, keys := range attached {
		if _, exists := held[id]; !exists {
			return fmt.Errorf("keys %q are on lease %d, which does not exist", keys, id)
		}
	}
	known := map[int64]bool{}
	for _, l := range leases {
		known[l.ID] = true
		h, exists := held[l.ID]
		switch {
		case !exists && l.Renewed != 0 && l.Revoking == 0:
			return fmt.Errorf("lease %d was granted and does not exist", l.ID)
		case !exists:
		case l.Revoked != 0:
			return fmt.Errorf("lease %d was revoked and still exists", l.ID)
		case h.TTL != l.TTL || h.Left <= 0:
			return fmt.Errorf("lease %d has %v left of a TTL of %v, it was granted %v", l.ID, h.Left, h.TTL, l.TTL)
		case !slices.Equal(slices.Sorted(slices.Values(h.Keys)), attached[l.ID]):
			return fmt.Errorf("lease %d has keys %q, want %q", l.ID, h.Keys, attached[l.ID])
		}
	}
	for id := range held {
		if !known[id] {
			return fmt.Errorf("lease %d exists, which no client asked for", id)
		}
	}
	return nil
}
