package index

import (
	"bytes"

	"github.com/sqlstore/sqlstore/backend"
)

// Span is a range of keys as the engine uses it: [Start, End), or everything from Start on if Open is set.
type Span struct {
	Start, End string
	Open       bool
	Single     bool // exactly the key Start
	Empty      bool
}

// NewSpan returns the span given by etcd's (key, range_end) convention.
func NewSpan(key, end []byte) Span {
	switch {
	case len(end) == 0:
		return Span{Start: string(key), End: string(key) + "\x00", Single: true}
	case len(end) == 1 && end[0] == 0:
		return Span{Start: string(key), Open: true}
	case bytes.Compare(end, key) <= 0:
		return Span{Empty: true}
	}
	return Span{Start: string(key), End: string(end)}
}

// Contains reports whether key is in the span.
func (s Span) Contains(key string) bool {
	return !s.Empty && key >= s.Start && (s.Open || key < s.End)
}

// Backend returns the span in the backend's convention.
func (s Span) Backend() backend.Span {
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
func (s Span) From(key string) Span {
	s.Start, s.Single = key, false
	return s
}

// Join returns the smallest span that contains both.
func (s Span) Join(o Span) Span {
	if s == o {
		return s
	}
	out := Span{Start: min(s.Start, o.Start), Open: s.Open || o.Open}
	if !out.Open {
		out.End = max(s.End, o.End)
	}
	return out
}
