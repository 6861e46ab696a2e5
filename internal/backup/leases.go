package backup

import (
	"maps"
	"time"
)

// unknownTTL is the TTL of a lease that ended before it could be looked up, so that its keys still expire.
const unknownTTL = time.Minute

// fileLeases is what a file says about leases.
type fileLeases struct {
	all     bool // those granted are all that there are
	granted map[int64]time.Duration
	ended   []int64
	used    map[int64]bool // by the file's keys, up to the point
}

// apply moves leases on to the end of a file, or to a point within it.
func (l *fileLeases) apply(leases map[int64]time.Duration, name Name, at int64) {
	switch {
	case name.Revision <= at:
		if l.all {
			clear(leases)
		}
		maps.Copy(leases, l.granted)
		for _, id := range l.ended {
			delete(leases, id)
		}
	case name.After < at:
		maps.Copy(leases, l.granted)
		for id := range l.used {
			if _, ok := leases[id]; !ok {
				leases[id] = unknownTTL
			}
		}
	}
}
