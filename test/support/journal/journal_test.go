package journal

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A check that cannot fail proves nothing: each history here is wrong, except the first.
func TestModelNotices(t *testing.T) {
	put := func(key, id string, rev, create, version int64) *mvccpb.Event {
		return &mvccpb.Event{Kv: &mvccpb.KeyValue{
			Key: []byte(key), Value: []byte(id), ModRevision: rev,
			CreateRevision: create, Version: version,
		}}
	}
	withPrev := func(e, prev *mvccpb.Event) *mvccpb.Event { e.PrevKv = prev.Kv; return e }
	del := func(key string, rev int64, prev *mvccpb.Event) *mvccpb.Event {
		return withPrev(&mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{
			Key:         []byte(key),
			ModRevision: rev,
		}}, prev)
	}
	a1 := put("a", "w1", 2, 2, 1)
	for name, c := range map[string]struct {
		events []*mvccpb.Event
		to     int64
		ok     bool
	}{
		"right": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			del("a", 4, a1),
		}, 4, true},
		"without the unknown one": {[]*mvccpb.Event{a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1)}, 3, true},
		"acknowledged one lost":   {[]*mvccpb.Event{a1}, 2, false},
		"server further":          {[]*mvccpb.Event{a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1)}, 4, false},
		"half a transaction":      {[]*mvccpb.Event{a1, put("b", "w2", 3, 3, 1)}, 3, false},
		"other half":              {[]*mvccpb.Event{a1, put("c", "w2", 3, 3, 1)}, 3, false},
		"gap":                     {[]*mvccpb.Event{a1, put("b", "w2", 4, 4, 1), put("c", "w2", 4, 4, 1)}, 4, false},
		"another revision": {[]*mvccpb.Event{
			put("b", "w2", 2, 2, 1), put("c", "w2", 2, 2, 1),
			put("a", "w1", 3, 3, 1),
		}, 3, false},
		"twice": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			del("a", 4, a1), put("a", "w1", 5, 5, 1),
		}, 5, false},
		"refused one": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			put("d", "w4", 4, 4, 1),
		}, 4, false},
		"nobody's": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			put("d", "w9", 4, 4, 1),
		}, 4, false},
		"nobody's deletion": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			del("b", 4, put("b", "w2", 3, 3, 1)),
		}, 4, false},
		"wrong version":         {[]*mvccpb.Event{a1, put("b", "w2", 3, 3, 2), put("c", "w2", 3, 3, 1)}, 3, false},
		"wrong create_revision": {[]*mvccpb.Event{a1, put("b", "w2", 3, 2, 1), put("c", "w2", 3, 3, 1)}, 3, false},
		"deletion without prev_kv": {[]*mvccpb.Event{
			a1, put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			del("a", 4, &mvccpb.Event{}),
		}, 4, false},
	} {
		j := New()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(j.End(j.Begin([]string{"a"}, nil), Acked, 2))
		must(j.End(j.Begin([]string{"b", "c"}, nil), Acked, 3))
		j.Begin(nil, []string{"a"}) // w3, without an answer
		must(j.End(j.Begin([]string{"d"}, nil), Refused, 3))
		m := NewModel(j)
		err := m.advance(c.events)
		if err == nil {
			err = m.finish(c.to)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJournalNoticesOneRevisionTwice(t *testing.T) {
	j := New()
	if err := j.End(j.Begin([]string{"a"}, nil), Acked, 2); err != nil {
		t.Fatal(err)
	}
	if err := j.End(j.Begin([]string{"b"}, nil), Acked, 2); err == nil {
		t.Error("two writes were acknowledged at revision 2 without an error")
	}
}
