package backendtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// testRandom runs random operations on the backend and on the model. It logs the seed, which reproduces a failure.
func testRandom(f *fixture) {
	seed := env.Seed.Uint(f.T, 1)
	f.Logf("seed %d", seed)
	for n := range uint64(env.Length.Count(f.T, 1)) {
		r := &random{f, rand.New(rand.NewPCG(seed, n))}
		for range 120 {
			r.step()
		}
	}
	if f.hooks.View != nil {
		f.wantSound(f.view())
	}
	f.purge(1000)
	f.checkRetained()
	f.checkReadable()
}

type random struct {
	*fixture
	*rand.Rand
}

func (r *random) step() {
	switch r.IntN(8) {
	case 0:
		r.compactSomewhere()
	case 1:
		if _, err := r.b.Purge(context.Background(), 1+r.IntN(20), math.MaxInt64); err != nil {
			r.Fatal(err)
		}
	default:
		var txns [][]op
		for range 1 + r.IntN(5) {
			txns = append(txns, r.ops())
		}
		r.commit(txns...)
	}
	for range 3 {
		r.read()
	}
	if r.hooks.Reopen != nil && r.IntN(60) == 0 {
		r.b = r.hooks.Reopen(r.T, r.b)
	}
}

func (r *random) key() string { return oddKeys[r.IntN(len(oddKeys))] }

// ops makes a transaction as etcd allows it: a key is put at most once, and may be deleted before and after that.
func (r *random) ops() (ops []op) {
	seen := map[string]bool{}
	for range 1 + r.IntN(4) {
		k := r.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		if r.IntN(3) == 0 {
			ops = append(ops, del(k))
		}
		if r.IntN(3) != 0 {
			ops = append(ops, op{key: k, value: fmt.Sprint(r.Int()), lease: int64(r.IntN(3))})
		}
		if r.IntN(6) == 0 {
			ops = append(ops, del(k))
		}
	}
	return ops
}

func (r *random) compactSomewhere() {
	if c := r.m.clock; c.Revision > c.Compacted {
		r.compact(c.Compacted + 1 + r.Int64N(c.Revision-c.Compacted))
	}
}

func (r *random) span() backend.Span {
	switch r.IntN(4) {
	case 0:
		return only(r.key())
	case 1:
		return from(r.key())
	case 2:
		return everything
	}
	return span(r.key(), r.key())
}

func (r *random) read() {
	c := r.m.clock
	at := max(1, c.Compacted)
	at += r.Int64N(c.Revision - at + 1)
	r.checkRange(backend.RangeQuery{Span: r.span(), Revision: at, Limit: 1 + r.IntN(30), KeysOnly: r.IntN(2) == 0})
	r.checkHistory(backend.HistoryQuery{
		After: at - 1, Until: at + r.Int64N(c.Revision-at+1), Span: r.span(), Limit: 1 + r.IntN(10),
		KeysOnly: r.IntN(2) == 0, WithPrev: r.IntN(2) == 0,
	})
	lease := int64(1 + r.IntN(2))
	var want []string
	for _, row := range r.m.rangeAt(everything, c.Revision) {
		if row.Lease == lease {
			want = append(want, string(row.Key))
		}
	}
	r.checkAttached(backend.Needs{LeaseKeys: []int64{lease}, LeaseLimit: len(want)}, want...)
}
