package auth

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"sort"
)

// rights are the keys that a user may read and write.
type rights struct{ read, write []interval }

// interval is the keys [start, end), or all keys from start on if it is open.
type interval struct {
	start, end string
	open       bool
}

// permissions yields those of all roles of a user. A role that a user has need not exist.
func (s *State) permissions(u *user) iter.Seq[*Permission] {
	return func(yield func(*Permission) bool) {
		for _, name := range u.Roles {
			role := s.roles[name]
			if role == nil {
				continue
			}
			for i := range role.Permissions {
				if !yield(&role.Permissions[i]) {
					return
				}
			}
		}
	}
}

// rightsOf returns the rights of a user of this state.
func (s *State) rightsOf(u *user) *rights {
	if r := u.rights.Load(); r != nil {
		return r
	}
	r := &rights{}
	for p := range s.permissions(u) {
		iv := intervalOf(p.Key, p.End)
		if p.Kind == Read || p.Kind == ReadWrite {
			r.read = append(r.read, iv)
		}
		if p.Kind == Write || p.Kind == ReadWrite {
			r.write = append(r.write, iv)
		}
	}
	r.read, r.write = merged(r.read), merged(r.write)
	u.rights.Store(r)
	return r
}

func intervalOf(key, end []byte) interval {
	switch {
	case len(end) == 0:
		return interval{start: string(key), end: string(key) + "\x00"}
	case open(end):
		return interval{start: string(key), open: true}
	}
	return interval{start: string(key), end: string(end)}
}

// open reports whether a range with this end has no upper bound.
func open(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// merged sorts intervals and joins those that overlap or touch.
func merged(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	var out []interval
	for _, iv := range all {
		if len(out) == 0 {
			out = append(out, iv)
			continue
		}
		last := &out[len(out)-1]
		switch {
		case last.open:
		case iv.start > last.end:
			out = append(out, iv)
		case iv.open:
			last.open, last.end = true, ""
		default:
			last.end = max(last.end, iv.end)
		}
	}
	return out
}

// cover reports whether merged intervals contain all keys of a range that is not reversed.
func cover(all []interval, key, end []byte) bool {
	i := sort.Search(len(all), func(i int) bool { return all[i].start > string(key) }) - 1 // the last that may
	switch {
	case i < 0:
		return false
	case all[i].open:
		return true
	case string(key) >= all[i].end, open(end):
		return false
	}
	return len(end) == 0 || string(end) <= all[i].end
}

// valid reports whether a permission may have this range.
func valid(key, end []byte) bool {
	switch {
	case len(key) == 0:
		return false
	case len(end) == 0, open(end):
		return true
	}
	return bytes.Compare(key, end) < 0
}
