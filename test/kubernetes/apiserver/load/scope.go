package load

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Scope is what a Watcher or a List covers.
type Scope struct {
	Kind      Kind
	Namespace string // "" is all
	// Prefix excludes from a comparison the objects in namespaces with other names, because a kube-apiserver has its
	// own objects.
	Prefix string
}

func (s Scope) String() string { return s.Kind.Resource + " in /" + s.Namespace }

func (s Scope) of(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(s.Kind.GroupVersionResource).Namespace(s.Namespace)
}

// within reports whether the scope contains an object.
func (s Scope) within(key Key) bool {
	return key.Resource == s.Kind.Resource && strings.HasPrefix(key.Namespace, s.Prefix) &&
		(s.Namespace == "" || s.Namespace == key.Namespace)
}

// at returns the last change up to a resource version of every object of the scope that existed then.
func (s Scope) at(truth map[Key][]Change, version int64) map[Key]Change {
	state := map[Key]Change{}
	for key, changes := range truth {
		if !s.within(key) {
			continue
		}
		for _, change := range changes {
			if change.Version > version {
				break
			}
			if change.Type == watch.Deleted {
				delete(state, key)
			} else {
				state[key] = change
			}
		}
	}
	return state
}

// after returns the changes of the scope's objects later than a resource version.
func (s Scope) after(truth map[Key][]Change, version int64) map[Key][]Change {
	later := map[Key][]Change{}
	for key, changes := range truth {
		if !s.within(key) {
			continue
		}
		i := slices.IndexFunc(changes, func(c Change) bool { return c.Version > version })
		if i >= 0 {
			later[key] = changes[i:]
		}
	}
	return later
}
