package sidebyside

import (
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// span is a range of keys: from is in it, to is not; a span without an end has every key from from on.
type span struct {
	from, to string
	endless  bool
}

func spanOf(key, end []byte) span {
	switch {
	case len(end) == 0:
		return span{from: string(key), to: string(key) + "\x00"}
	case string(end) == "\x00":
		return span{from: string(key), endless: true}
	}
	return span{from: string(key), to: string(end)}
}

// rights is the model: what roles permit, and which users have which roles.
type rights struct {
	roles map[string][]*authpb.Permission
	users map[string][]string
	// keys are those of each lease.
	keys map[int64]map[string]bool
}

// may reports whether a user may read, or write, a range: if permissions of the user's roles, together, cover it.
func (m *rights) may(user string, kind authpb.Permission_Type, key, end []byte) bool {
	if slices.Contains(m.users[user], "root") {
		return true
	}
	var granted []span
	for _, role := range m.users[user] {
		for _, p := range m.roles[role] {
			if p.PermType == kind || p.PermType == authpb.Permission_READWRITE {
				granted = append(granted, spanOf(p.Key, p.RangeEnd))
			}
		}
	}
	wanted := spanOf(key, end)
	// Follow the permissions from the beginning of the range on, as far as they reach.
	reached, endless := wanted.from, false
	for again := true; again && !endless; {
		again = false
		for _, g := range granted {
			if g.from <= reached && (g.endless || g.to > reached) {
				reached, endless, again = g.to, g.endless, true
			}
		}
	}
	return endless || !wanted.endless && reached >= wanted.to
}

func (m *rights) read(user string, key, end []byte) bool {
	return m.may(user, authpb.Permission_READ, key, end)
}

func (m *rights) write(user string, key, end []byte) bool {
	return m.may(user, authpb.Permission_WRITE, key, end)
}

// writeLease reports whether a user may write all keys of a lease.
func (m *rights) writeLease(user string, id int64) bool {
	for key := range m.keys[id] {
		if !m.write(user, []byte(key), nil) {
			return false
		}
	}
	return true
}

func (m *rights) readLease(user string, id int64) bool {
	for key := range m.keys[id] {
		if !m.read(user, []byte(key), nil) {
			return false
		}
	}
	return true
}

func (m *rights) put(user string, r *pb.PutRequest) bool {
	return m.write(user, r.Key, nil) && (r.Lease == 0 || m.writeLease(user, r.Lease)) &&
		(!r.PrevKv || m.read(user, r.Key, nil))
}

func (m *rights) remove(user string, r *pb.DeleteRangeRequest) bool {
	return m.write(user, r.Key, r.RangeEnd) && (!r.PrevKv || m.read(user, r.Key, r.RangeEnd))
}

// txn reports whether a user may do everything that a transaction names.
func (m *rights) txn(user string, r *pb.TxnRequest) bool {
	for _, c := range r.Compare {
		if !m.read(user, c.Key, c.RangeEnd) {
			return false
		}
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		var may bool
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			may = m.read(user, o.RequestRange.Key, o.RequestRange.RangeEnd)
		case *pb.RequestOp_RequestPut:
			may = m.put(user, o.RequestPut)
		case *pb.RequestOp_RequestDeleteRange:
			may = m.remove(user, o.RequestDeleteRange)
		case *pb.RequestOp_RequestTxn:
			may = m.txn(user, o.RequestTxn)
		default:
			may = true
		}
		if !may {
			return false
		}
	}
	return true
}
