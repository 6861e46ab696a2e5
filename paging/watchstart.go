package paging

import "fmt"

// Where a watch begins, by its parameters:
//
//	sendInitialEvents | resourceVersion unset        | "0"                      | N
//	not given         | state, most recent           | state, any version       | events after N
//	true              | state, most recent           | state, any version       | state, not older than N
//	false             | no state, events from now on | no state, from now on    | events after N
//
// With sendInitialEvents, resourceVersionMatch must be NotOlderThan; without it, resourceVersionMatch must not be set.
// If sendInitialEvents requested the state and bookmarks are allowed, a bookmark follows the state. This is KEP-3157
// and Kubernetes' documentation of "Semantics for watch"; continue is always refused.

// Watch decides where a watch begins. Errors: [ErrInvalid].
func (p *Pager) Watch(o WatchOptions) (WatchStart, error) {
	version, err := ParseVersion(o.ResourceVersion)
	if err != nil {
		return WatchStart{}, err
	}
	if why := watchForbids(o); why != "" {
		return WatchStart{}, fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	switch {
	case o.SendInitialEvents != nil && !*o.SendInitialEvents:
		return WatchStart{After: version}, nil
	case o.SendInitialEvents == nil && version > 0:
		return WatchStart{After: version}, nil
	}
	start := WatchStart{State: true, List: ListOptions{ResourceVersion: o.ResourceVersion}}
	start.EndBookmark = o.SendInitialEvents != nil && o.AllowWatchBookmarks
	return start, nil
}

// watchForbids explains, in Kubernetes' words, which options cannot be combined; "" if all can.
func watchForbids(o WatchOptions) string {
	switch given := o.SendInitialEvents != nil; {
	case o.Continue != "":
		return "continue is forbidden for watch"
	case given && o.ResourceVersionMatch != matchNotOlderThan:
		return "sendInitialEvents requires setting resourceVersionMatch to " + matchNotOlderThan
	case !given && o.ResourceVersionMatch != "":
		return "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
	}
	return ""
}
