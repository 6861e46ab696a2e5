package store

import (
	"bytes"

	"github.com/sqlstore/sqlstore/backend"
)

// span is a range of keys as the engine uses it: [start, end), or everything from start on when open.
type span struct {
	start, end string
	open       bool
	single     bool // exactly the key start
	empty      bool
}

// makeSpan reads etcd's (key, range_end) convention.
func makeSpan(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{start: string(key), end: string(key) + "\x00", single: true}
	case len(end) == 1 && end[0] == 0:
		return span{start: string(key), open: true}
	case bytes.Compare(end, key) <= 0:
		return span{empty: true}
	}
	return span{start: string(key), end: string(end)}
}

// PrefixEnd returns the End of the range of all keys that begin with prefix, in etcd's convention: the least key above
// them, or one NUL byte when there is none.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

func (s span) contains(key string) bool {
	return !s.empty && key >= s.start && (s.open || key < s.end)
}

// backend returns the span in the backend's convention.
func (s span) backend() backend.Span {
	b := backend.Span{Start: []byte(s.start)}
	if s.single {
		return b
	}
	b.End = []byte(s.end)
	if s.open {
		b.End = []byte{}
	}
	return b
}

// from returns the part of the span that starts at key.
func (s span) from(key string) span {
	s.start, s.single = key, false
	return s
}

// join returns the least span that has both.
func (s span) join(o span) span {
	if s == o {
		return s
	}
	out := span{start: min(s.start, o.start), open: s.open || o.open}
	if !out.open {
		out.end = max(s.end, o.end)
	}
	return out
}
