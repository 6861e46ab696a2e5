package load

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// Key names an object.
type Key struct{ Resource, Namespace, Name string }

func (k Key) String() string { return k.Resource + "/" + k.Namespace + "/" + k.Name }

// Change is one version of an object.
type Change struct {
	Type watch.EventType
	// Version is the resource version; 0 in a History's deletion, which kube-apiserver acknowledges without one.
	Version int64
	// Sum is a hash of the whole object except its resource version. A deletion shows the last state of the object, but
	// nothing in a History if it was acknowledged without an object.
	Sum string
	// Ending marks the version with which kube-apiserver itself begins the deletion of a Pod.
	Ending bool
}

func (c Change) String() string { return fmt.Sprintf("%s@%d", c.Type, c.Version) }

// newChange describes an object from an answer or an event.
func newChange(event watch.EventType, u *unstructured.Unstructured) (Change, error) {
	version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return Change{}, fmt.Errorf("resource version of %s: %w", u.GetName(), err)
	}
	metadata, _ := u.Object["metadata"].(map[string]any) // exists, because the version did
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	object := maps.Clone(u.Object)
	object["metadata"] = metadata
	content, err := json.Marshal(object) // sorts its keys
	if err != nil {
		return Change{}, err
	}
	sum := sha256.Sum256(content)
	ending := event != watch.Deleted && u.GetDeletionTimestamp() != nil
	return Change{Type: event, Version: version, Sum: string(sum[:]), Ending: ending}, nil
}

// History is every acknowledged change, by object, in order. It is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	changes map[Key][]Change
	count   int
	unclear int
	waiters []waiter
}

type waiter struct {
	changes, unclear int
	reached          chan struct{}
}

// NewHistory returns an empty History.
func NewHistory() *History {
	return &History{changes: map[Key][]Change{}}
}

func (h *History) add(key Key, change Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes[key] = append(h.changes[key], change)
	h.count++
	h.wake()
}

// addUnclear counts a write whose answer did not settle its outcome.
func (h *History) addUnclear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unclear++
	h.wake()
}

func (h *History) wake() {
	h.waiters = slices.DeleteFunc(h.waiters, func(w waiter) bool {
		reached := h.count >= w.changes && h.unclear >= w.unclear
		if reached {
			close(w.reached)
		}
		return reached
	})
}

// Count returns the number of changes.
func (h *History) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// Unclear returns the number of failed requests whose outcome had to be read.
func (h *History) Unclear() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unclear
}

// Reached returns a channel that is closed once there are at least that many changes and that many requests of unclear
// outcome.
func (h *History) Reached(changes, unclear int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	reached := make(chan struct{})
	h.waiters = append(h.waiters, waiter{changes, unclear, reached})
	h.wake()
	return reached
}

// Changes returns a copy of all changes.
func (h *History) Changes() map[Key][]Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[Key][]Change, len(h.changes))
	for key, changes := range h.changes {
		all[key] = slices.Clone(changes)
	}
	return all
}

// Live returns the last change of every object that exists.
func (h *History) Live() map[Key]Change {
	live := map[Key]Change{}
	for key, changes := range h.Changes() {
		if change := changes[len(changes)-1]; change.Type != watch.Deleted {
			live[key] = change
		}
	}
	return live
}

// Versions checks that no two changes of the history have the same resource version and that each object's versions
// grow.
func (h *History) Versions() error {
	owner := map[int64]Key{}
	all := h.Changes()
	for _, key := range slices.SortedFunc(maps.Keys(all), compareKeys) {
		last := int64(0)
		for _, change := range all[key] {
			if change.Type == watch.Deleted {
				continue
			}
			if other, ok := owner[change.Version]; ok {
				return fmt.Errorf("%v and %v were both written at resource version %d", other, key, change.Version)
			}
			owner[change.Version] = key
			if change.Version <= last {
				return fmt.Errorf("%v: resource version %d after %d", key, change.Version, last)
			}
			last = change.Version
		}
	}
	return nil
}

func compareKeys(a, b Key) int { return strings.Compare(a.String(), b.String()) }
