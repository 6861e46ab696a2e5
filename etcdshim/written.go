package etcdshim

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/pkg/v3/adt"

	"github.com/sqlstore/sqlstore/internal/store"
)

// written is what the operations of a branch put and delete, including nested transactions.
//
// The intervals have etcd's own type, because its behaviour is visible to clients: a range without an end ("\0") counts
// as empty, so that a put inside it is accepted.
type written struct {
	puts    map[string]struct{}
	deletes adt.IntervalTree
}

func (w *written) deleted(key string) bool {
	return w.deletes.Intersects(adt.NewStringAffinePoint(key))
}

// writtenBy collects what ops write. It refuses a key that is put twice, or put by one operation and deleted by another
// of the same level or above; the two branches of a nested transaction exclude each other.
func writtenBy(ops []store.Op) (*written, error) {
	w := &written{puts: map[string]struct{}{}, deletes: adt.NewIntervalTree()}
	for i := range ops {
		if d := ops[i].Delete; d != nil {
			w.deletes.Insert(interval(d), struct{}{})
		}
	}
	for i := range ops {
		if t := ops[i].Txn; t != nil {
			if err := w.nested(t); err != nil {
				return nil, err
			}
		}
	}
	for i := range ops {
		if p := ops[i].Put; p != nil {
			key := string(p.Key)
			if _, twice := w.puts[key]; twice || w.deleted(key) {
				return nil, rpctypes.ErrGRPCDuplicateKey
			}
			w.puts[key] = struct{}{}
		}
	}
	return w, nil
}

// nested adds what t may write.
func (w *written) nested(t *store.Txn) error {
	success, err := writtenBy(t.Success)
	if err != nil {
		return err
	}
	failure, err := writtenBy(t.Failure)
	if err != nil {
		return err
	}
	for _, puts := range [2]map[string]struct{}{success.puts, failure.puts} {
		for key := range puts {
			if _, twice := w.puts[key]; twice || w.deleted(key) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
	}
	for _, branch := range [2]*written{success, failure} {
		for key := range branch.puts {
			w.puts[key] = struct{}{}
		}
		w.deletes.Union(branch.deletes, adt.NewStringAffineInterval("\x00", ""))
	}
	return nil
}

func interval(d *store.DeleteRequest) adt.Interval {
	if len(d.End) == 0 {
		return adt.NewStringAffinePoint(string(d.Key))
	}
	return adt.NewStringAffineInterval(string(d.Key), string(d.End))
}
