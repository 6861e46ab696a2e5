package sidebyside

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxOps is the --max-txn-ops of both servers in random sequences: low, so that sequences reach it.
const maxOps = 8

// keys are the keys in use: few, with shared prefixes, with the lowest and the highest bytes, and of all lengths.
var keys = []string{
	"a", "a\x00", "a\x00\x00", "a\x00b", "aa", "ab", "a\xff", "a\xff\xff", "b", "b/", "b/1", "b/2", "b/2/x",
	"c", "c\x01", "\x00", "\x00\x00", "\x01", "\xff", "\xff\xff", "\xff\x00", "\xc3\x28", "d", "e", "f", "g",
	long[:2600], long, long + "\x00", long + "z",
}

// long is longer than an index entry of a database can be.
var long = strings.Repeat("b/long/", 400)

// leases are the ids that sequences grant and use, besides a few that never exist.
var leases = []int64{1, 2, 3, 77, -5, math.MaxInt64, math.MinInt64}

// gen draws requests. One gen serves one step.
type gen struct {
	*rand.Rand
	state // as known from etcd's answers up to this step
}

// state is what a step may refer to.
type state struct {
	rev       int64 // current revision
	compacted int64 // revision of the last Compact, 0 before it
}

// often is true in the given percentage of cases.
func (g *gen) often(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *gen, from ...T) T { return from[g.IntN(len(from))] }

func (g *gen) key() []byte {
	if g.IntN(300) == 0 {
		return nil // refused almost everywhere
	}
	return []byte(pick(g, keys...))
}

// span draws a key and a range end in every possible form.
func (g *gen) span() (key, end []byte) {
	key = g.key()
	switch g.IntN(8) {
	case 0, 1:
		return key, nil
	case 2:
		return key, []byte{0} // from key on
	case 3:
		return []byte{0}, []byte{0} // everything
	case 4:
		return key, []byte(clientv3.GetPrefixRangeEnd(string(key)))
	case 5:
		return key, bytes.Clone(key) // empty
	default:
		return key, g.key() // reversed half of the time
	}
}

func (g *gen) value() []byte {
	switch g.IntN(10) {
	case 0:
		return nil
	case 1:
		return bytes.Repeat([]byte{byte(g.IntN(256))}, g.IntN(100))
	default:
		return []byte(pick(g, "1", "2", "3", "\x00", "\xff", "10"))
	}
}

// revision draws a revision to read at: mostly the current one, otherwise old, compacted, future or invalid.
func (g *gen) revision() int64 {
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		return g.rev - int64(g.IntN(12))
	case 4:
		return g.compacted + int64(g.IntN(3)) - 1
	case 5:
		return g.rev
	case 6:
		return g.rev + 1 + int64(g.IntN(3))
	case 7:
		return pick[int64](g, -1, 1, math.MinInt64, math.MaxInt64)
	default:
		return 0
	}
}

// bound draws the bound of a revision filter: 0 means none.
func (g *gen) bound() int64 {
	if g.often(85) {
		return 0
	}
	return g.rev + 2 - int64(g.IntN(20))
}

func (g *gen) rangeRequest() *pb.RangeRequest {
	key, end := g.span()
	r := &pb.RangeRequest{
		Key: key, RangeEnd: end,
		Revision:          g.revision(),
		Serializable:      g.often(20),
		KeysOnly:          g.often(15),
		CountOnly:         g.often(10),
		MinModRevision:    g.bound(),
		MaxModRevision:    g.bound(),
		MinCreateRevision: g.bound(),
		MaxCreateRevision: g.bound(),
	}
	if g.often(40) {
		r.Limit = pick[int64](g, 1, 1, 2, 3, 5, 9, 10, 11, 1000, math.MaxInt64, -1)
	}
	if g.often(40) {
		r.SortOrder = pb.RangeRequest_SortOrder(g.IntN(3))
		r.SortTarget = pb.RangeRequest_SortTarget(g.IntN(5))
	}
	if g.often(1) {
		r.SortOrder = pick[pb.RangeRequest_SortOrder](g, 3, -1, math.MaxInt32)
	}
	if g.often(1) {
		r.SortTarget = pick[pb.RangeRequest_SortTarget](g, 5, -1, math.MaxInt32)
	}
	return r
}

// hashRequest draws no revision up to the compacted one: etcd may still have a hash of it.
func (g *gen) hashRequest() *pb.HashKVRequest {
	r := &pb.HashKVRequest{Revision: g.revision()}
	if r.Revision <= g.compacted {
		r.Revision = 0
	}
	return r
}

// streamRequest draws a range whose sort and filters RangeStream mostly accepts.
func (g *gen) streamRequest() *pb.RangeRequest {
	r := g.rangeRequest()
	if g.often(80) {
		r.SortOrder, r.SortTarget = 0, 0
		r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision = 0, 0, 0, 0
	}
	if g.often(20) {
		r.SortOrder, r.SortTarget = 0, pb.RangeRequest_SortTarget(g.IntN(5))
	}
	if r.SortOrder == pb.RangeRequest_NONE && r.SortTarget != pb.RangeRequest_KEY && r.Limit >= 0 {
		// etcd sorts each chunk separately and then loses its place. The answers are comparable when the first chunk,
		// of ten rows, is the last, or when a negative limit puts everything into one chunk.
		prefix := pick(g, "a", "b", "c")
		r.Key, r.RangeEnd = []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
		r.Limit = pick[int64](g, 0, 10, 11, 1000, math.MaxInt64)
	}
	return r
}

func (g *gen) putRequest() *pb.PutRequest {
	r := &pb.PutRequest{Key: g.key(), Value: g.value(), PrevKv: g.often(40)}
	if g.often(25) {
		r.Lease = g.leaseID()
	}
	if g.often(8) {
		r.IgnoreValue = true
		if g.often(85) {
			r.Value = nil
		}
	}
	if g.often(8) {
		r.IgnoreLease = true
		if g.often(85) {
			r.Lease = 0
		}
	}
	return r
}

func (g *gen) deleteRequest() *pb.DeleteRangeRequest {
	r := &pb.DeleteRangeRequest{PrevKv: g.often(40)}
	r.Key, r.RangeEnd = g.span()
	if g.often(60) { // otherwise the store would be empty most of the time
		r.Key, r.RangeEnd = g.key(), nil
	}
	return r
}

func (g *gen) compactRequest() *pb.CompactionRequest {
	r := &pb.CompactionRequest{Revision: g.rev - int64(g.IntN(25)), Physical: g.often(30)}
	if g.often(25) {
		r.Revision = g.revision()
	}
	if r.Revision == 0 {
		r.Revision = 1 // 0 succeeds once, and makes etcd's HashKV return the hash of nothing from then on
	}
	return r
}

func (g *gen) leaseID() int64 {
	if g.often(4) {
		return pick[int64](g, 4, -1, 12345)
	}
	return pick(g, leases...)
}

// ttl draws times in seconds that outlast the test, and some that are refused.
func (g *gen) ttl() int64 {
	return pick[int64](g, 3600, 7200, 86400, 9_000_000_000, 9_000_000_001, math.MaxInt64)
}
