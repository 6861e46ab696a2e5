package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// evaluator runs transactions in order, in memory, over the committed state and an overlay with the effects of the
// preceding ones.
//
// The sequencer uses one per batch, and runReadOnly uses one for a transaction that only reads. If the index is
// complete, the committed state is the index, or a snapshot of it, to which the commits of others may be added.
// Otherwise it is the rows that the backend loaded under the clock's lock.
//
// [Config.TxnRows] bounds the rows that one transaction may change, or scan while it changes some. Deleting a range
// is one revision, of which no part may be visible without the rest, so all other writes wait for it. That holds in
// etcd, too, which has no bound: on two cores, deleting 100,000 keys of 1,000 bytes took 0.56 s (etcd 3.7.3: 0.52 s),
// and 950,000 small ones 10 s and 380 MB (etcd: 4.7 s and 750 MB). A default below 1,000,000 would refuse what people
// do, such as `etcdctl del --prefix ""` on a store of any size that Kubernetes reaches. The backend could not support
// one far above it: SQLite's ids have space for 1,048,576 rows of a revision. A transaction that only reads holds up
// nobody (see runReadOnly), so of its rows only those returned count.
type evaluator struct {
	s          *Store
	ctx        context.Context
	loaded     *index.Tree    // nil if the index is used
	whole      bool           // loaded has all keys: it is a snapshot of the index
	reading    bool           // the transaction only reads
	ahead      []*index.Item  // rows that loaded has beyond the index, without values
	overlay    index.Tree     // newest rows of the batch, tombstones included
	from       int64          // revision of the committed state
	server     backend.Server // that reported it
	alarms     int64          // the number that the tail reports for the alarms, users and roles in that state
	generation int            // of the index when the batch began
	oldest     int64          // the clock's compacted revision in that state
	rev        int64          // revision of the last transaction that wrote
	rows       []*index.Item
	prevs      []*index.Item // for watches, what each of rows superseded: the key's row before the transaction
	undo       []undone
	scanned    int        // rows of ranges, including those that the batch itself has changed
	diff       difference // of the overlay
	// For the transaction under way:
	client      context.Context // its caller's; nil if it need not be checked
	reservation *reservation    // for its values; nil if it has another context for these, or returns none
	changes     changes
	mark        int  // index of its first row
	txnScanned  int  // rows it has scanned
	shared      bool // its values are part of a much larger message, which none of them may keep in memory

	split bool // the batch must be committed in parts
	// The last answer of base: a compare and the put after it ask for the same key.
	asked bool
	key   string
	found *index.Item

	single [1]*index.Item // what first returns for a single key

	auth         *auth.State   // as the calls before left it
	was          *auth.State   // as it is committed
	caller       auth.Identity // of the call under way, if authentication is enabled
	keysOfLeases bool          // loaded has the keys of all leases that calls name

	leases   map[int64]leaseStatus        // of the leases that the batch has changed
	states   map[int64]backend.LeaseState // of the leases that the batch names, if the database keeps their time
	attached attachments
	epoch    int64
	effects  backend.Effects
}

// undone is what the overlay held before a transaction changed it.
type undone struct {
	key string
	was *index.Item
}

// indexed reports whether the committed state has all keys, so that nothing need be loaded for an operation.
func (e *evaluator) indexed() bool { return e.loaded == nil || e.whole }

// begin starts a transaction. Its rows, if any, get the next revision.
func (e *evaluator) begin() {
	e.mark, e.txnScanned = len(e.rows), 0
	e.reservation = nil
	e.undo = e.undo[:0]
	e.changes.reset()
}

// end closes the transaction and returns the revision of its answer.
func (e *evaluator) end() int64 {
	if len(e.rows) > e.mark {
		e.rev++
	}
	return e.rev
}

// abort undoes the transaction.
func (e *evaluator) abort() {
	for i := len(e.undo) - 1; i >= 0; i-- {
		if u := e.undo[i]; u.was == nil {
			e.overlay.Delete(u.key)
		} else {
			e.overlay.Set(u.was)
		}
	}
	e.rows, e.prevs = e.rows[:e.mark], e.prevs[:e.mark]
	e.attached.rows = min(e.attached.rows, e.mark)
	if e.diff.rows > e.mark {
		e.diff = difference{}
	}
}

// inner returns the revision that the transaction's own operations see.
func (e *evaluator) inner() int64 {
	if len(e.rows) > e.mark {
		return e.rev + 1
	}
	return e.rev
}

// base returns the committed live row of key, nil if there is none.
func (e *evaluator) base(key string) *index.Item {
	if e.asked && e.key == key {
		return e.found
	}
	if e.loaded != nil {
		e.found, _ = e.loaded.Get(key)
	} else {
		e.found, _ = e.s.index.Get(key)
	}
	e.asked, e.key = true, key
	return e.found
}

// live returns the live row of key as the transaction sees it, nil if there is none.
func (e *evaluator) live(key string) *index.Item {
	if it, ok := e.overlay.Get(key); ok {
		if it.Deleted {
			return nil
		}
		return it
	}
	return e.base(key)
}

// write appends a row to the transaction under way. All versions of a key share the bytes of the first one: those that
// came with the request would keep the whole message in memory.
func (e *evaluator) write(r Row, prev *index.Item) {
	r.ModRevision = e.rev + 1
	r.Ordinal = int32(len(e.rows) - e.mark)
	if prev != nil {
		r.PrevRevision, r.Key = prev.ModRevision, prev.Key
	} else {
		r.Key = bytes.Clone(r.Key)
	}
	it := index.NewItem(r)
	key := index.KeyString(r.Key)
	was, _ := e.overlay.Set(it)
	if prev != nil && prev.ModRevision == r.ModRevision {
		prev = e.before(key)
	}
	e.undo = append(e.undo, undone{key, was})
	e.rows = append(e.rows, it)
	e.prevs = append(e.prevs, prev)
}

// values returns the items as rows with their values.
func (e *evaluator) values(items []*index.Item) ([]*Row, error) {
	return e.s.rows(e.ctx, items, e.epoch, &RangeRequest{})
}

func (e *evaluator) put(p *PutRequest) (*PutResult, error) {
	prev := e.live(index.KeyString(p.Key))
	value := p.Value
	if e.shared {
		value = bytes.Clone(value)
	}
	r := Row{Key: p.Key, Value: value, Lease: p.Lease, Version: 1, CreateRevision: e.rev + 1}
	res := &PutResult{}
	var old *Row
	if prev == nil && (p.IgnoreValue || p.IgnoreLease) {
		return nil, ErrKeyNotFound // the transaction itself deleted it
	}
	if prev != nil {
		r.Version, r.CreateRevision = prev.Version+1, prev.CreateRevision
		if p.PrevKV || p.IgnoreValue {
			rows, err := e.values([]*index.Item{prev})
			if err != nil {
				return nil, err
			}
			old = rows[0]
		}
		if p.IgnoreLease {
			r.Lease = prev.Lease
		}
		if p.IgnoreValue {
			r.Value = old.Value
		}
		if p.PrevKV {
			res.Prev = old
		}
	}
	e.write(r, prev)
	res.Revision = e.rev + 1
	return res, nil
}

func (e *evaluator) delete(d *DeleteRequest) (*DeleteResult, error) {
	items, err := e.scan(d.Key, d.End)
	if err != nil {
		return nil, err
	}
	if len(e.rows)-e.mark+len(items) > e.s.cfg.TxnRows {
		return nil, fmt.Errorf("%w: more than %d", ErrTxnTooLarge, e.s.cfg.TxnRows)
	}
	res := &DeleteResult{Deleted: int64(len(items))}
	if d.PrevKV {
		if res.Prev, err = e.values(items); err != nil {
			return nil, err
		}
	}
	e.undo = slices.Grow(e.undo, len(items))
	e.rows, e.prevs = slices.Grow(e.rows, len(items)), slices.Grow(e.prevs, len(items))
	for _, it := range items {
		e.write(Row{Key: it.Key, Deleted: true}, it)
	}
	res.Revision = e.inner()
	return res, nil
}
