package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Reads checks every answer against the history: a read found what existed at its revision, a refusal was justified,
// and no answer has a revision below that of any answer that arrived before its request was sent.
func Reads(base Base, ops []*Op, events []Event) error {
	if err := realTime(ops); err != nil {
		return err
	}
	past := newPast(base, events)
	for _, o := range ops {
		if o.Outcome == Unknown {
			continue
		}
		if err := past.check(o); err != nil {
			return fmt.Errorf("%w: %v", err, o)
		}
	}
	return nil
}

// realTime checks that revisions follow real time, across all clients and replicas.
func realTime(ops []*Op) error {
	var answered []*Op
	for _, o := range ops {
		if o.Outcome != Unknown && o.Revision > 0 {
			answered = append(answered, o)
		}
	}
	byStart := slices.Clone(answered)
	slices.SortFunc(byStart, func(a, b *Op) int { return int(a.Start - b.Start) })
	slices.SortFunc(answered, func(a, b *Op) int { return int(a.End - b.End) })
	var newest *Op // of those that ended earlier
	for _, o := range byStart {
		for len(answered) > 0 && answered[0].End < o.Start {
			if newest == nil || answered[0].Revision > newest.Revision {
				newest = answered[0]
			}
			answered = answered[1:]
		}
		if newest == nil {
			continue
		}
		if o.Revision < newest.Revision || o.Revision == newest.Revision && o.Kind.Writes() && o.Outcome == Done {
			return fmt.Errorf("stale: %v\nwas sent after this was answered: %v", o, newest)
		}
	}
	return nil
}

// past has each key's content at each revision.
type past struct {
	keys   []string
	events map[string][]Event
}

func newPast(base Base, events []Event) *past {
	p := &past{events: map[string][]Event{}}
	for k, e := range base {
		p.events[k] = []Event{e}
	}
	for _, e := range events {
		p.events[e.Key] = append(p.events[e.Key], e)
	}
	for k := range p.events {
		p.keys = append(p.keys, k)
	}
	slices.Sort(p.keys)
	return p
}

// at returns the key at a revision, the zero KV if it did not exist.
func (p *past) at(key string, rev int64) KV {
	events := p.events[key]
	i := sort.Search(len(events), func(i int) bool { return events[i].Revision > rev })
	if i == 0 {
		return KV{}
	}
	return events[i-1].KV()
}

func (p *past) check(o *Op) error {
	switch {
	case o.Kind == Get || o.Kind == List:
		return p.same(o)
	case o.Kind == Delete && o.Outcome == Refused:
		if kv := p.at(o.Keys[0], o.Revision); kv.Mod != 0 {
			return fmt.Errorf("%+v existed and could be deleted", kv)
		}
	case o.Kind == Swap:
		rev := o.Revision
		if o.Outcome == Done {
			rev-- // a compare sees the state before
		}
		if mod := p.at(o.Keys[0], rev).Mod; (mod == o.Expect) != (o.Outcome == Done) {
			return fmt.Errorf("the key was of revision %d", mod)
		}
	}
	return nil
}

// same compares what a read found with the history.
func (p *past) same(o *Op) error {
	at := cmp.Or(o.At, o.Revision)
	var want []KV
	for _, k := range p.keys {
		if k != o.Keys[0] && (o.Kind != List || !strings.HasPrefix(k, o.Keys[0])) {
			continue
		}
		if kv := p.at(k, at); kv.Mod != 0 {
			want = append(want, kv)
		}
	}
	if !slices.Equal(o.Found, want) {
		return fmt.Errorf("the history has %+v at revision %d", want, at)
	}
	return nil
}
