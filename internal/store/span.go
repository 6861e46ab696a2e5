package store

import (
	"bytes"

	"github.com/sqlstore/sqlstore/backend"
)

// span is a range of keys as the engine uses it: [Start, End), or everything from Start on when Open.
type span struct {
	Start, End string
	Open       bool
	Single     bool // exactly the key Start
	Empty      bool
}

// makeSpan reads etcd's (key, range_end) convention.
func makeSpan(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{Start: string(key), End: string(key) + "\x00", Single: true}
	case len(end) == 1 && end[0] == 0:
		return span{Start: string(key), Open: true}
	case bytes.Compare(end, key) <= 0:
		return span{Empty: true}
	}
	return span{Start: string(key), End: string(end)}
}

// Contains says whether key is in the span.
func (s span) Contains(key string) bool {
	return !s.Empty && key >= s.Start && (s.Open || key < s.End)
}

// Backend returns the span in the backend's convention.
func (s span) Backend() backend.Span {
	b := backend.Span{Start: []byte(s.Start)}
	if s.Single {
		return b
	}
	b.End = []byte(s.End)
	if s.Open {
		b.End = []byte{}
	}
	return b
}

// From returns the part of the span that starts at key.
func (s span) From(key string) span {
	s.Start, s.Single = key, false
	return s
}

// Join returns the least span that has both.
func (s span) Join(o span) span {
	if s == o {
		return s
	}
	out := span{Start: min(s.Start, o.Start), Open: s.Open || o.Open}
	if !out.Open {
		out.End = max(s.End, o.End)
	}
	return out
}
