package conditions

import (
	"slices"
	"sync"
	"time"
)

// Set holds the conditions of one server and knows since when each has its status. The zero Set is empty. It may be used by
// several goroutines.
type Set struct {
	mu  sync.RWMutex
	all []Condition
}

// Replace makes all the conditions those of the moment now, and returns those whose status has changed, or that have appeared or
// vanished, as they are now; one that has vanished comes with the status False. The transition times in all are not looked at.
func (s *Set) Replace(now time.Time, all []Condition) (changed []Condition) {
	now = now.UTC().Truncate(time.Second) // as metav1.Time is written
	all = slices.Clone(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		c := &all[i]
		if was := Find(s.all, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
			continue
		}
		c.LastTransitionTime = now
		changed = append(changed, *c)
	}
	for _, was := range s.all {
		if Find(all, was.Type) == nil {
			was.Status, was.LastTransitionTime = False, now
			changed = append(changed, was)
		}
	}
	s.all = all
	return changed
}

// List returns the conditions.
func (s *Set) List() []Condition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.all)
}
