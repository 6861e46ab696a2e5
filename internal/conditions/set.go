package conditions

import (
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/status"
)

// Set holds the conditions of one server and remembers since when each has its status. The zero Set is empty. It is
// safe for concurrent use.
type Set struct {
	mu  sync.RWMutex
	all []status.Condition
}

// Replace sets all the conditions as of now, and returns those whose status changed, or that appeared or vanished; a
// vanished one has the status False. Replace ignores the transition times in all.
func (s *Set) Replace(now time.Time, all []status.Condition) (changed []status.Condition) {
	now = now.UTC().Truncate(time.Second) // as metav1.Time is written
	all = slices.Clone(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		c := &all[i]
		if was := status.Find(s.all, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
			continue
		}
		c.LastTransitionTime = now
		changed = append(changed, *c)
	}
	for _, was := range s.all {
		if status.Find(all, was.Type) == nil {
			was.Status, was.LastTransitionTime = status.False, now
			changed = append(changed, was)
		}
	}
	s.all = all
	return changed
}

// List returns the conditions.
func (s *Set) List() []status.Condition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.all)
}
