package store

import "math/rand/v2"

// dice makes the choices of a random test from a string of bytes, so that a fuzzer can steer them. When the bytes run
// out, every choice is the first one.
type dice struct{ data []byte }

// roll returns a number from 0 to n-1; n is at most 256.
func (d *dice) roll(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

// oneIn returns true once in n times, and never after the bytes run out.
func (d *dice) oneIn(n int) bool { return d.roll(n) == n-1 }

func (d *dice) done() bool { return len(d.data) == 0 }

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// generator makes requests that touch what earlier requests touched.
type generator struct {
	*dice
	m      *model // to choose revisions from; nil: only the current one
	leases []int64
}

var genKeys = []string{"a", "a\x00", "a/b", "aa", "b", "b/1", "b/2", "b/\xff", "c", "\x00", "\xff", "\xff\xff"}

func (g *generator) key() []byte { return []byte(genKeys[g.roll(len(genKeys))]) }

func (g *generator) span() (key, end []byte) {
	switch g.roll(5) {
	case 0, 1:
		return g.key(), nil
	case 2:
		return g.key(), []byte{0}
	case 3:
		return []byte("b/"), []byte("b0")
	}
	return g.key(), g.key()
}

// revision returns a past, present or future revision of the model; 0 most of the time.
func (g *generator) revision() int64 {
	if g.m == nil || g.roll(3) != 2 {
		return 0
	}
	return max(0, g.m.rev+2-int64(g.roll(16)))
}

func (g *generator) rangeRequest() *RangeRequest {
	r := &RangeRequest{Revision: g.revision()}
	r.Key, r.End = g.span()
	if g.oneIn(3) {
		r.Limit = int64(g.roll(5))
	}
	r.KeysOnly, r.CountOnly = g.oneIn(5), g.oneIn(6)
	if g.oneIn(3) {
		r.Target, r.Order = SortTarget(g.roll(5)), SortOrder(g.roll(3))
	}
	if g.oneIn(6) {
		for _, p := range []*int64{&r.MinModRev, &r.MaxModRev, &r.MinCreateRev, &r.MaxCreateRev} {
			if g.oneIn(3) {
				*p = int64(g.roll(30))
			}
		}
	}
	return r
}

func (g *generator) value() []byte {
	if g.oneIn(6) {
		return nil
	}
	v := make([]byte, g.roll(40))
	for i := range v {
		v[i] = 'a' + byte(i%3)
	}
	return v
}

func (g *generator) putRequest() *PutRequest {
	p := &PutRequest{Key: g.key(), PrevKV: g.oneIn(3)}
	if g.oneIn(8) {
		p.IgnoreValue = true
	} else {
		p.Value = g.value()
	}
	switch g.roll(8) {
	case 6:
		p.IgnoreLease = true
	case 7:
		p.Lease = g.lease()
	}
	return p
}

func (g *generator) lease() int64 {
	if len(g.leases) == 0 {
		return 0
	}
	return g.leases[g.roll(len(g.leases))]
}

func (g *generator) compare() Compare {
	c := Compare{
		Key: g.key(), Target: CompareTarget(g.roll(5)), Result: CompareResult(g.roll(4)),
		Number: int64(g.roll(4)),
	}
	if g.oneIn(4) {
		c.Key, c.End = g.span()
	}
	switch c.Target {
	case CompareValue:
		c.Value = g.value()
	case CompareLease:
		c.Number = g.lease()
	case CompareMod, CompareCreate:
		if g.m != nil {
			c.Number = max(0, g.m.rev-int64(g.roll(12)))
		}
	}
	return c
}

// txn makes transactions that pass etcd's checks, and some that do not. It puts each key at most once.
func (g *generator) txn(depth int, put map[string]bool) *Txn {
	t := &Txn{}
	for range g.roll(3) {
		t.Compare = append(t.Compare, g.compare())
	}
	t.Success, t.Failure = g.ops(depth, put), g.ops(depth, put)
	return t
}

func (g *generator) ops(depth int, put map[string]bool) (ops []Op) {
	for range g.roll(4) {
		switch g.roll(6) {
		case 0, 1:
			if p := g.putRequest(); !put[string(p.Key)] {
				put[string(p.Key)] = true
				ops = append(ops, Op{Put: p})
			}
		case 2:
			d := &DeleteRequest{PrevKV: g.oneIn(2)}
			d.Key, d.End = g.span()
			ops = append(ops, Op{Delete: d})
		case 3, 4:
			ops = append(ops, Op{Range: g.rangeRequest()})
		case 5:
			if depth > 0 {
				ops = append(ops, Op{Txn: g.txn(depth-1, put)})
			}
		}
	}
	return ops
}

func (g *generator) watchRequest() WatchRequest {
	w := WatchRequest{PrevKV: g.oneIn(2), NoPut: g.oneIn(8), NoDelete: g.oneIn(8)}
	w.Key, w.End = g.span()
	if g.m != nil && g.oneIn(2) {
		w.StartRevision = max(0, g.m.rev+3-int64(g.roll(20)))
	}
	return w
}
