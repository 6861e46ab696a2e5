package backendtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// longKeys have about the length that fits an index, are equal in their first bytes, or are far longer.
func longKeys() []string {
	p, q := strings.Repeat("p", 2600), strings.Repeat("p", 2599)+"q"
	keys := []string{
		"a", p[:100], p[:2599], p[:2599] + "\x00", p[:2599] + "\xff", p, p + "\x00", p + "\x00\x00", p + "\xff",
		p + "\xff\xff", q, q + "z", "z",
		p + strings.Repeat("\xff", 40), p + strings.Repeat("\x00", 40), p + strings.Repeat("x", 10_000),
		p + strings.Repeat("x", 10_000) + "y",
		strings.Repeat("\xff", 2600), strings.Repeat("\xff", 2601), strings.Repeat("\xff", 5000),
		strings.Repeat("\x00", 3000),
	}
	for i := range 12 {
		keys = append(keys, fmt.Sprint(p, "/", i), fmt.Sprint(q, strings.Repeat("/", 3*i), i))
	}
	// Keys that look like an index's substitute for another key: its beginning and a digest.
	for _, k := range []string{p + "\x00", p + "/7"} {
		sum := sha256.Sum256([]byte(k))
		keys = append(keys, p+string(sum[:]), p[:2568]+string(sum[:]))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// bounds are where spans of longKeys may begin and end.
func (f *fixture) bounds() []string {
	keys := longKeys()
	var some []string
	for i := 0; i < len(keys); i += 8 {
		some = append(some, keys[i])
	}
	p := strings.Repeat("p", 2600)
	return append(some, "\x00", p, p+"/", p+"0", p+"\xff\xff\xff", p+strings.Repeat("\xff", 50), p[:2599]+"q")
}

// testLongKeys checks that long keys behave like short ones.
func testLongKeys(f *fixture) {
	keys := longKeys()
	var first, second []op
	for i := range keys {
		first = append(first, op{key: keys[(i*7)%len(keys)], value: fmt.Sprint("first ", i), lease: int64(i % 3)})
	}
	f.apply(&backend.Effects{
		Granted: []backend.Lease{{ID: 1, TTL: 1e12}, {ID: 2, TTL: 1e12}},
		Rows:    f.m.add(unique(first)),
	})
	for i, k := range keys {
		switch i % 4 {
		case 0:
			second = append(second, put(k, strings.Repeat("v", 100*i)))
		case 1:
			second = append(second, del(k))
		}
	}
	f.commit(second)
	f.commit([]op{put(keys[1], "again"), put(keys[5], "again")})
	for pass := range 2 {
		f.checkLongSpans()
		f.checkLongNeeds(keys)
		for _, k := range keys {
			f.checkHistory(backend.HistoryQuery{Span: only(k), Limit: 100, WithPrev: true})
		}
		f.checkHistory(backend.HistoryQuery{Limit: 1000, WithPrev: true})
		f.checkSuperseded()
		if pass == 0 {
			f.compact(f.m.clock.Revision)
			f.purge(7)
			f.m.rows, f.m.of = f.m.retained(), map[string][]int{}
			for i, r := range f.m.rows {
				f.m.of[string(r.Key)] = append(f.m.of[string(r.Key)], i)
			}
		}
	}
}

// unique removes duplicates.
func unique(ops []op) (out []op) {
	seen := map[string]bool{}
	for _, o := range ops {
		if !seen[o.key] {
			out, seen[o.key] = append(out, o), true
		}
	}
	return out
}

func (f *fixture) checkLongSpans() {
	f.Helper()
	bounds := f.bounds()
	revisions := []int64{f.m.clock.Revision}
	if f.m.clock.Compacted == 0 {
		revisions = append(revisions, 2)
	}
	for i, start := range bounds {
		for n, q := range []backend.RangeQuery{{Limit: 1}, {Limit: 4}, {Limit: 1000}, {Limit: 9, Bytes: 6000}} {
			q.Revision, q.KeysOnly = revisions[(i/2+n)%len(revisions)], (i+n)%2 == 0
			q.Span = from(start)
			f.checkRange(q)
			q.Span = span(start, bounds[(i*5+n*3+1)%len(bounds)])
			f.checkRange(q)
			q.Span = span(start, bounds[(i*3+n*7+2)%len(bounds)])
			f.checkRange(q)
			q.Span = span(start, start+"\x00")
			f.checkRange(q)
		}
		for _, revision := range revisions {
			f.checkRange(backend.RangeQuery{Span: only(start), Revision: revision, Limit: 10})
		}
		f.checkHistory(backend.HistoryQuery{Span: span(start, bounds[(i*3+2)%len(bounds)]), Limit: 1000})
	}
}

// checkLongNeeds makes transactions load keys and spans.
func (f *fixture) checkLongNeeds(keys []string) {
	f.Helper()
	bounds := f.bounds()
	for i, start := range bounds {
		s := span(start, bounds[(i*7+3)%len(bounds)])
		n := backend.Needs{
			Keys: [][]byte{[]byte(keys[i]), []byte(keys[len(keys)-1-i])}, Spans: []backend.Span{s},
			SpanLimit: 1000,
		}
		tx, err := f.b.Begin(context.Background(), n)
		if err != nil {
			f.Fatal(err)
		}
		var want []backend.Row
		for _, r := range f.m.rangeAt(from(""), f.m.clock.Revision) {
			if contains(s, r.Key) ||
				slices.ContainsFunc(n.Keys, func(k []byte) bool { return string(k) == string(r.Key) }) {
				want = append(want, r)
			}
		}
		f.compare("needs of "+describeSpan(s), tx.Loaded().Rows, want, false)
		tx.Rollback()
	}
	tx, err := f.b.Begin(context.Background(), backend.Needs{LeaseKeys: []int64{1, 2}, LeaseLimit: 1000})
	if err != nil {
		f.Fatal(err)
	}
	got := keysOf(tx.Loaded().LeaseRows)
	tx.Rollback()
	slices.Sort(got)
	var want []string
	for _, r := range f.m.rangeAt(from(""), f.m.clock.Revision) {
		if r.Lease != 0 {
			want = append(want, string(r.Key))
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("keys of leases: %q, want %q", got, want)
	}
}
