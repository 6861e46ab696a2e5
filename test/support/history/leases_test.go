package history

import (
	"slices"
	"testing"
	"time"
)

func TestLeasesNotices(t *testing.T) {
	const ttl = 2 * time.Second
	lease := Lease{ID: 7, TTL: ttl, Renewed: 10 * time.Second, Keys: []string{"l/7/a", "l/7/b"}}
	put := func(key string, rev int64) Event {
		return Event{Key: key, Value: "w1", Revision: rev, Create: rev, Version: 1, Lease: 7}
	}
	gone := func(key string, rev int64) Event { return Event{Key: key, Deleted: true, Revision: rev} }
	puts := []Event{put("l/7/a", 2), put("l/7/b", 2)}
	both := append(slices.Clone(puts), gone("l/7/a", 3), gone("l/7/b", 3))
	others := append(slices.Clone(both), gone("k/1", 4), Event{Key: "k/1", Value: "w2", Revision: 5}, gone("k/1", 6))
	revoked := func(sent time.Duration, rev int64) Lease { l := lease; l.Revoking, l.Revoked = sent, rev; return l }
	missed := func(at time.Duration) Lease { l := lease; l.Missed = at; return l }
	for name, c := range map[string]struct {
		lease  Lease
		events []Event
		seen   time.Duration // revision 3
		ok     bool
	}{
		"right":                 {lease, both, 12 * time.Second, true},
		"late":                  {lease, both, 20 * time.Second, true},
		"other keys":            {lease, others, 12 * time.Second, true},
		"never put":             {Lease{ID: 7, TTL: ttl, Renewed: 1}, nil, 0, true},
		"early":                 {lease, both, 11 * time.Second, false},
		"missed":                {missed(13 * time.Second), both, 14 * time.Second, true},
		"missed early":          {missed(11 * time.Second), both, 14 * time.Second, false},
		"revoked":               {revoked(11*time.Second, 3), both, 11 * time.Second, true},
		"without answer":        {revoked(11*time.Second, 0), both, 11 * time.Second, true},
		"before the revocation": {revoked(11*time.Second, 3), both, 10 * time.Second, false},
		"after the revocation":  {revoked(11*time.Second, 2), both, 11 * time.Second, false},
		"still there":           {lease, puts, 0, false},
		"one key left":          {lease, both[:3], 12 * time.Second, false},
		"in two steps": {
			lease, append(slices.Clone(puts), gone("l/7/a", 3), gone("l/7/b", 4)),
			12 * time.Second, false,
		},
		"ended twice":     {lease, append(slices.Clone(both), gone("l/7/a", 4)), 12 * time.Second, false},
		"back once ended": {lease, append(slices.Clone(both), put("l/7/a", 4)), 12 * time.Second, false},
	} {
		err := Leases([]Lease{c.lease}, c.events, map[int64]time.Duration{3: c.seen}, true)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	mixed := []Event{gone("l/7/a", 5), gone("l/8/a", 5)}
	if _, err := Writes(nil, mixed); err == nil {
		t.Error("two leases that expired at one revision pass")
	}
}

func TestHeldLeasesNotices(t *testing.T) {
	type holding = map[int64]Held
	const ttl = time.Minute
	j := NewJournal()
	put := func(id int64, keys ...string) { j.Begin(Op{Kind: Put, Keys: keys, Lease: id}) }
	revoke := func(id int64, outcome Outcome) {
		j.End(j.Begin(Op{Kind: Revoke, Lease: id}), func(o *Op) { o.Outcome, o.Revision = outcome, 9 })
	}
	for id := range int64(5) {
		j.Granted(id+1, ttl, 0)
		if id < 4 {
			j.Renewed(id+1, 1)
		}
	}
	const kept, revoked, revokedUnknown, withoutKey, unknown = 1, 2, 3, 4, 5
	put(kept, "l/1/a", "l/1/b")
	revoke(revoked, Done)
	revoke(revokedUnknown, Unknown)
	hold := func(id int64, h Held) func(Base, holding) { return func(_ Base, held holding) { held[id] = h } }
	lose := func(id int64) func(Base, holding) { return func(_ Base, held holding) { delete(held, id) } }
	apply := func(e Event) func(Base, holding) { return func(base Base, _ holding) { base.Apply(e) } }
	for name, c := range map[string]struct {
		change func(Base, holding)
		ok     bool
	}{
		"right":                        {apply(Event{Key: "k", Revision: 9}), true},
		"revocation without answer":    {hold(revokedUnknown, Held{ttl, 1, nil}), true},
		"grant without answer is gone": {lose(unknown), true},
		"granted one is gone":          {lose(withoutKey), false},
		"lease of a key is gone":       {apply(Event{Key: "x", Lease: revokedUnknown}), false},
		"revoked one is there":         {hold(revoked, Held{ttl, 1, nil}), false},
		"nobody's":                     {hold(7, Held{ttl, 1, nil}), false},
		"other TTL":                    {hold(unknown, Held{ttl - 1, 1, nil}), false},
		"expired":                      {hold(unknown, Held{ttl, 0, nil}), false},
		"lost its key":                 {hold(kept, Held{ttl, 1, []string{"l/1/b"}}), false},
		"has a key too many":           {hold(withoutKey, Held{ttl, 1, []string{"k"}}), false},
		"has a deleted key":            {apply(Event{Key: "l/1/a", Deleted: true}), false},
		"has a key without a lease":    {apply(Event{Key: "l/1/a"}), false},
	} {
		base := Base{}
		base.Apply(Event{Key: "k"}, Event{Key: "l/1/a", Lease: kept}, Event{Key: "l/1/b", Lease: kept})
		held := holding{
			kept: {ttl, 1, []string{"l/1/b", "l/1/a"}}, withoutKey: {ttl, ttl, nil}, unknown: {ttl, ttl, nil},
		}
		c.change(base, held)
		if err := HeldLeases(j.Leases(), base, held); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	j.Settle(map[int64]Held{kept: {}})
	if leases := j.Leases(); len(j.Ops()) != 0 || len(leases) != 1 || len(leases[0].Keys) != 2 {
		t.Errorf("%v and %+v are left of the journal, want lease %d with its keys", j.Ops(), leases, kept)
	}
}
