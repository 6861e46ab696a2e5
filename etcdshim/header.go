package etcdshim

import (
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// identities holds the current identity: the term is the database's epoch, which rises after a loss of history.
type identities struct {
	epoch   func() int64
	current atomic.Pointer[identity]
}

func newIdentities(cluster, member uint64, epoch func() int64) *identities {
	ids := &identities{epoch: epoch}
	ids.current.Store(newIdentity(cluster, member, uint64(epoch())))
	return ids
}

func (ids *identities) now() *identity {
	id := ids.current.Load()
	if term := uint64(ids.epoch()); term != id.term {
		id = newIdentity(id.cluster, id.member, term)
		ids.current.Store(id)
	}
	return id
}

func (ids *identities) header(revision int64) *pb.ResponseHeader { return ids.now().header(revision) }

// member is the id of this server, which never changes.
func (ids *identities) member() uint64 { return ids.current.Load().member }

// identity is what all response headers of this server share. A reply keeps the one that it was measured with.
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

// innerHeader is the header of operations inside a transaction: it has only a revision.
var innerHeader = &identity{}

func (id *identity) size(revision int64) int {
	return sizeMessage(len(id.before) + sizeInt(revision) + len(id.after))
}

// header writes field 1, the header of every response.
func (w *writer) header(id *identity, revision int64) {
	end := w.mark()
	w.i -= len(id.after)
	copy(w.b[w.i:], id.after)
	w.int(tag3Int, revision)
	w.i -= len(id.before)
	copy(w.b[w.i:], id.before)
	w.close(tag1Bytes, end)
}
