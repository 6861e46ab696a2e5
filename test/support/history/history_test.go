package history

import (
	"slices"
	"testing"
	"time"
)

// A check that cannot fail proves nothing. This history is correct, and every test makes it wrong in one way.
//
// Times are in units: client 1 puts a at revision 2 (times 1 to 2), client 2 puts b and c at 3 (3 to 4), client 1 swaps
// a at 4 (5 to 6), deletes b at 5 (7 to 8), and so on.
type story struct {
	ops    []*Op
	events []Event
}

const (
	opPutA = iota
	opPutBC
	opSwapA
	opDeleteB
	opGetA      // finds the swapped value
	opListAll   // finds a and c
	opRefused   // a swap of a that is too late
	opUnknown   // a put of d without an answer, which is in the history
	opLost      // a put of e without an answer, which is not in the history
	opDeleteC   // a deletion without an answer, which is in the history
	opDeleteNil // a deletion of an absent key
	opMove      // a transaction that puts f and deletes d
	opPast      // a list at revision 3
	opGetF      // finds f with its lease
	opGetNoF    // does not find f at revision 7
)

func right() *story {
	op := func(o Op, start, end time.Duration, outcome Outcome, rev int64) *Op {
		o.Start, o.End, o.Outcome, o.Revision = start, end, outcome, rev
		return &o
	}
	put := func(key, value string, rev, create, version int64) Event {
		return Event{Key: key, Value: value, Revision: rev, Create: create, Version: version}
	}
	s := &story{
		ops: []*Op{
			op(Op{Client: 1, Kind: Put, Keys: []string{"a"}, Value: "w1"}, 1, 2, Done, 2),
			op(Op{Client: 2, Kind: Put, Keys: []string{"b", "c"}, Value: "w2"}, 3, 4, Done, 3),
			op(Op{Client: 1, Kind: Swap, Keys: []string{"a"}, Value: "w3", Expect: 2}, 5, 6, Done, 4),
			op(Op{Client: 1, Kind: Delete, Keys: []string{"b"}, Value: "w4"}, 7, 8, Done, 5),
			op(Op{Client: 2, Kind: Get, Keys: []string{"a"}, Found: []KV{{
				Key: "a", Value: "w3", Mod: 4, Create: 2,
				Version: 2,
			}}}, 7, 9, Done, 4),
			op(Op{Client: 3, Kind: List, Keys: []string{""}, Found: []KV{
				{Key: "a", Value: "w3", Mod: 4, Create: 2, Version: 2}, {
					Key: "c", Value: "w2", Mod: 3, Create: 3,
					Version: 1,
				},
			}}, 10, 11, Done, 5),
			op(Op{Client: 3, Kind: Swap, Keys: []string{"a"}, Value: "w5", Expect: 2}, 12, 13, Refused, 5),
			op(Op{Client: 4, Kind: Put, Keys: []string{"d"}, Value: "w6"}, 14, 15, Unknown, 0),
			op(Op{Client: 5, Kind: Put, Keys: []string{"e"}, Value: "w7"}, 14, 15, Unknown, 0),
			op(Op{Client: 6, Kind: Delete, Keys: []string{"c"}, Value: "w8"}, 14, 15, Unknown, 0),
			op(Op{Client: 6, Kind: Delete, Keys: []string{"b"}, Value: "w9"}, 16, 17, Refused, 7),
			op(Op{
				Client: 7, Kind: Put, Keys: []string{"f"}, Deletes: []string{"d"}, Value: "w10", Lease: 1,
			}, 18, 19, Done, 8),
			op(Op{Client: 7, Kind: List, Keys: []string{""}, At: 3, Found: []KV{
				{Key: "a", Value: "w1", Mod: 2, Create: 2, Version: 1},
				{Key: "b", Value: "w2", Mod: 3, Create: 3, Version: 1},
				{Key: "c", Value: "w2", Mod: 3, Create: 3, Version: 1},
			}}, 20, 21, Done, 8),
			op(Op{Client: 7, Kind: Get, Keys: []string{"f"}, Found: []KV{
				{Key: "f", Value: "w10", Mod: 8, Create: 8, Version: 1, Lease: 1},
			}}, 22, 23, Done, 8),
			op(Op{Client: 7, Kind: Get, Keys: []string{"f"}, At: 7}, 24, 25, Done, 8),
		},
		events: []Event{
			put("a", "w1", 2, 2, 1),
			put("b", "w2", 3, 3, 1), put("c", "w2", 3, 3, 1),
			put("a", "w3", 4, 2, 2),
			{Key: "b", Deleted: true, Revision: 5},
			put("d", "w6", 6, 6, 1),
			{Key: "c", Deleted: true, Revision: 7},
			{Key: "f", Value: "w10", Revision: 8, Create: 8, Version: 1, Lease: 1},
			{Key: "d", Deleted: true, Revision: 8},
		},
	}
	keys := Base{}
	for i, e := range s.events {
		s.events[i].Prev = keys[e.Key].KV()
		keys.Apply(e)
	}
	return s
}

func (s *story) check(to int64) map[string]error {
	errs := map[string]error{"order": Order(nil, s.events, 1, to), "previous": Previous(nil, s.events)}
	fate, err := Writes(s.ops, s.events)
	errs["writes"] = err
	if err == nil {
		errs["reads"] = Reads(nil, s.ops, s.events)
		errs["linearizable"] = Linearizable(nil, s.ops, fate, time.Minute)
	}
	return errs
}

func TestRightHistoryPasses(t *testing.T) {
	for check, err := range right().check(8) {
		if err != nil {
			t.Errorf("%s: %v", check, err)
		}
	}
}

func TestWrongHistoriesAreRefused(t *testing.T) {
	// without removes a revision and renumbers the later ones, as if it had never existed.
	without := func(s *story, rev int64) {
		s.events = slices.DeleteFunc(s.events, func(e Event) bool { return e.Revision == rev })
	}
	for name, c := range map[string]struct {
		spoil func(*story)
		to    int64 // 0: 8
		by    string
	}{
		"gap":                    {func(s *story) { without(s, 6) }, 0, "order"},
		"first revision missing": {func(s *story) { without(s, 2) }, 0, "order"},
		"clock is ahead":         {func(*story) {}, 9, "order"},
		"clock is behind":        {func(*story) {}, 7, "order"},
		"out of order": {
			func(s *story) { s.events[0], s.events[1] = s.events[1], s.events[0] },
			0, "order",
		},
		"wrong version":              {func(s *story) { s.events[3].Version = 1 }, 0, "order"},
		"wrong create revision":      {func(s *story) { s.events[3].Create = 4 }, 0, "order"},
		"deletion of nothing":        {func(s *story) { s.events[6].Key = "z" }, 0, "order"},
		"put without prev_kv":        {func(s *story) { s.events[3].Prev = KV{} }, 0, "previous"},
		"deletion without prev_kv":   {func(s *story) { s.events[4].Prev = KV{} }, 0, "previous"},
		"prev_kv of a new key":       {func(s *story) { s.events[1].Prev = s.events[3].Prev }, 0, "previous"},
		"prev_kv with another value": {func(s *story) { s.events[4].Prev.Value = "w1" }, 0, "previous"},
		"lost write": {func(s *story) {
			without(s, 7)
			without(s, 6)
			s.ops[opUnknown].Outcome, s.ops[opUnknown].Revision = Done, 6
		}, 5, "writes"},
		"lost newest write": {func(s *story) { s.ops[opLost].Outcome, s.ops[opLost].Revision = Done, 9 }, 0, "writes"},
		"twice": {func(s *story) {
			s.events = append(s.events, Event{Key: "d", Value: "w6", Revision: 9, Create: 6, Version: 2})
		}, 9, "writes"},
		"deletion twice": {
			func(s *story) { s.events = append(s.events, Event{Key: "c", Deleted: true, Revision: 9}) },
			9, "writes",
		},
		"without a writer": {func(s *story) { s.events[5].Value = "w99" }, 0, "writes"},
		"refused one": {func(s *story) {
			s.events = append(s.events, Event{Key: "a", Value: "w5", Revision: 9, Create: 2, Version: 3})
		}, 9, "writes"},
		"half a transaction":          {func(s *story) { s.events = slices.Delete(s.events, 2, 3) }, 0, "writes"},
		"other half of a transaction": {func(s *story) { s.events = slices.Delete(s.events, 1, 2) }, 0, "writes"},
		"nobody's deletion": {
			func(s *story) { s.events = append(s.events, Event{Key: "a", Deleted: true, Revision: 9}) },
			9, "writes",
		},
		"write of another transaction": {func(s *story) { s.events[2].Value = "w1" }, 0, "writes"},
		"at another revision": {
			func(s *story) { s.events[3].Value, s.events[5].Value = "w6", "w3" },
			0, "writes",
		},
		"another key": {func(s *story) { s.events[5].Key = "a" }, 0, "writes"},
		"one revision for two": {func(s *story) {
			s.ops[opUnknown].Outcome, s.ops[opUnknown].Revision = Done,
				5
		}, 0, "writes"},
		"without its lease":     {func(s *story) { s.ops[opPutA].Lease = 7 }, 0, "writes"},
		"deletion with a lease": {func(s *story) { s.events[8].Lease = 1 }, 0, "writes"},
		"without its deletion":  {func(s *story) { s.events = s.events[:8] }, 0, "writes"},
		"with another deletion": {func(s *story) { s.events[8].Key = "a" }, 0, "writes"},
		"put instead of a deletion": {
			func(s *story) { s.ops[opMove].Keys, s.ops[opMove].Deletes = []string{"f", "d"}, nil },
			0, "writes",
		},
		"deletion instead of a put": {
			func(s *story) { s.ops[opPutBC].Keys, s.ops[opPutBC].Deletes = []string{"b"}, []string{"c"} },
			0, "writes",
		},
		"stale read": {func(s *story) { stale(s.ops[opGetA], 2) }, 0, "reads"},
		"stale read of nothing": {
			func(s *story) { s.ops[opListAll].Found, s.ops[opListAll].Revision = nil, 1 },
			0, "reads",
		},
		"read of the wrong revision": {func(s *story) { stale(s.ops[opGetA], 4) }, 0, "reads"},
		"list lacks a key": {
			func(s *story) { s.ops[opListAll].Found = s.ops[opListAll].Found[:1] },
			0, "reads",
		},
		"read without its lease":        {func(s *story) { s.ops[opGetF].Found[0].Lease = 0 }, 0, "reads"},
		"list of another past revision": {func(s *story) { s.ops[opPast].At = 4 }, 0, "reads"},
		"past key that did not exist":   {func(s *story) { s.ops[opGetNoF].Found = s.ops[opGetF].Found }, 0, "reads"},
		"wrongly refused swap":          {func(s *story) { s.ops[opRefused].Expect = 4 }, 0, "reads"},
		"swap of an absent key":         {func(s *story) { s.ops[opSwapA].Expect = 0 }, 0, "reads"},
		"wrongly refused deletion":      {func(s *story) { s.ops[opDeleteNil].Keys = []string{"a"} }, 0, "reads"},
		"write below an answered one":   {func(s *story) { s.ops[opPutA].Start, s.ops[opPutA].End = 5, 6 }, 0, "reads"},
		"stale read, to porcupine":      {func(s *story) { stale(s.ops[opGetA], 2) }, 0, "linearizable"},
		"wrong swap, to porcupine":      {func(s *story) { s.ops[opSwapA].Expect = 3 }, 0, "linearizable"},
		"refused swap, to porcupine":    {func(s *story) { s.ops[opRefused].Expect = 4 }, 0, "linearizable"},
		"deleted nothing, to porcupine": {
			func(s *story) { s.ops[opDeleteNil].Keys = []string{"a"} }, 0,
			"linearizable",
		},
		"read of a deleted key, to porcupine": {
			func(s *story) { s.ops[opGetF].Keys, s.ops[opGetF].Found[0] = []string{"d"}, KV{Key: "d", Value: "w6"} },
			0, "linearizable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			c.spoil(s)
			if c.to == 0 {
				c.to = 8
			}
			if err := s.check(c.to)[c.by]; err == nil {
				t.Error("the check passes")
			} else {
				t.Log(err)
			}
		})
	}
}

// TestStaleAnswers reads the state of 4 units earlier.
func TestStaleAnswers(t *testing.T) {
	for bound, passes := range map[time.Duration]bool{0: false, 2: false, 4: true} {
		s := right()
		stale(s.ops[opGetA], 2)
		if _, err := Answers(nil, s.ops, s.events, bound, time.Minute); (err == nil) != passes {
			t.Errorf("with a bound of %d: %v", bound, err)
		}
		s = right()
		s.ops[opPutA].Start, s.ops[opPutA].End = 5, 6 // a write is never stale
		if _, err := Answers(nil, s.ops, s.events, bound, time.Minute); err == nil {
			t.Errorf("with a bound of %d, a write below an answered one passes", bound)
		}
	}
}

// stale makes a read of a find its first version, at the given revision.
func stale(o *Op, rev int64) {
	o.Found, o.Revision = []KV{{Key: "a", Value: "w1", Mod: 2, Create: 2, Version: 1}}, rev
}

func TestWatchNotices(t *testing.T) {
	history := right().events
	other := func(change func(*Event)) []Event {
		events := slices.Clone(history)
		change(&events[3])
		return events
	}
	for name, got := range map[string][]Event{
		"missing at the end": history[:6],
		"missing":            slices.Delete(slices.Clone(history), 2, 3),
		"twice":              slices.Insert(slices.Clone(history), 2, history[1]),
		"too much":           append(slices.Clone(history), Event{Key: "x", Revision: 9}),
		"other value":        other(func(e *Event) { e.Value = "x" }),
		"other prev":         other(func(e *Event) { e.Prev = KV{Key: "a", Value: "w1", Mod: 2} }),
		"nothing":            nil,
	} {
		if Watch(got, history) == nil {
			t.Errorf("%s: the check passes", name)
		}
	}
	if err := Watch(slices.Clone(history), history); err != nil {
		t.Error(err)
	}
}

func TestOutages(t *testing.T) {
	var ops []*Op
	write := func(end time.Duration, outcome Outcome) {
		ops = append(ops, &Op{Replica: "r1", Kind: Put, Start: end - 1, End: end, Outcome: outcome, Err: "Unavailable"})
	}
	for i := 1; i <= 10; i++ {
		outcome := Done
		if i >= 4 && i <= 7 {
			outcome = Unknown
		}
		write(time.Duration(i)*time.Second, outcome)
	}
	o := Outages(ops, 3500*time.Millisecond, 6*time.Second, 10*time.Second)
	if len(o) != 1 || o[0].Writes != 5*time.Second || o[0].After != 2*time.Second || o[0].Open ||
		o[0].Errors["Unavailable"] != 4 {
		t.Errorf("%+v, want 5 s between the writes acknowledged at 3 s and at 8 s", o)
	}
	if o := Outages(ops[:7], 3500*time.Millisecond, 6*time.Second, 10*time.Second); !o[0].Open {
		t.Errorf("%+v, want an outage that has not ended", o)
	}
}
