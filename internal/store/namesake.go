package store

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// namesakeAge is how long another replica of this one's name must be seen before it is reported: longer than a replica
// that was killed, and runs again, counts as alive.
const namesakeAge = 2 * beatTimeout

// namesake notices a live replica that has the name of this one. Its zero value has noticed none.
type namesake struct {
	id       uint64
	since    time.Time
	reported bool
}

// check compares the members of a heartbeat with self, and returns a namesake once.
func (n *namesake) check(members []backend.Member, self backend.Member, now time.Time) (backend.Member, bool) {
	for _, m := range members {
		if m.ID == self.ID || m.Name != self.Name {
			continue
		}
		if m.ID != n.id {
			*n = namesake{id: m.ID, since: now}
		}
		if n.reported || now.Sub(n.since) < namesakeAge {
			return backend.Member{}, false
		}
		n.reported = true
		return m, true
	}
	*n = namesake{}
	return backend.Member{}, false
}
