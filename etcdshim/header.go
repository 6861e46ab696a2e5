package etcdshim

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// identity is what all response headers of this server share.
type identity struct {
	cluster, member, term uint64
	before, after         []byte // the encoded fields before and after the revision
}

func newIdentity(cluster, member, term uint64) *identity {
	id := &identity{cluster: cluster, member: member, term: term}
	field := func(b []byte, num protowire.Number, v uint64) []byte {
		if v == 0 {
			return b
		}
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
	}
	id.before = field(field(nil, 1, cluster), 2, member)
	id.after = field(nil, 4, term)
	return id
}

func (id *identity) header(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: id.cluster, MemberId: id.member, Revision: revision, RaftTerm: id.term}
}

// innerHeader is that of the operations inside a transaction: it tells a revision and nothing else.
var innerHeader = &identity{}

func (id *identity) size(revision int64) int {
	return sizeMessage(len(id.before) + sizeInt(revision) + len(id.after))
}

// header writes field 1, which is the header in all responses.
func (w *writer) header(id *identity, revision int64) {
	end := w.mark()
	w.i -= len(id.after)
	copy(w.b[w.i:], id.after)
	w.int(tag3Int, revision)
	w.i -= len(id.before)
	copy(w.b[w.i:], id.before)
	w.close(tag1Bytes, end)
}
