package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// lockedBytes bounds how much of what others wrote is read, values included, while the clock is held.
	lockedBytes = 256 << 10
	// aheadRows and aheadBytes bound one statement for what lies beyond lockedBytes. aheadMax bounds all of it, in
	// rows; beyond that, the batch gives the clock back.
	aheadRows  = 10_000
	aheadBytes = 4 << 20
	aheadMax   = 200_000
)

var errBehind = errors.New("this replica is far behind the others")

// ahead brings the committed state that e evaluates on up to the clock, which tx holds, if the index has not reached
// it: others have written more than came with the clock. It reads no values; these are read before the batch is
// published. Errors: errBehind, errReset, errOvertaken, errLostHistory, those of the backend.
func (r *replica) ahead(ctx context.Context, tx backend.SharedTx, e *evaluator) error {
	r.mu.Lock()
	state, rev, ok := r.s.index.Fork(e.from)
	batch, epoch, server := r.batch, r.s.epoch.Load(), r.server
	e.generation = r.s.index.Position().Generation
	r.mu.Unlock()
	switch {
	case !ok || epoch != e.epoch:
		return errReset
	case rev > e.from || server != e.server:
		return errOvertaken
	case state == nil:
		return nil
	}
	for rev < e.from {
		if len(e.ahead) > aheadMax {
			return errBehind
		}
		t, err := tx.Tail(ctx, backend.TailQuery{After: rev, Limit: aheadRows, Bytes: aheadBytes, KeysOnly: true})
		if err != nil {
			return err
		}
		if t.Base != 0 && batch != 0 && t.Base != batch {
			return fmt.Errorf("%w: revision %d was seen, and is of another batch", errLostHistory, rev)
		}
		if t.Through == rev || whole(&t, rev, rev) != nil {
			return errBehind // behind a compaction, or behind revisions without rows
		}
		for i := range t.Changes {
			row := t.Changes[i].Row
			key := index.KeyString(row.Key)
			if old, ok := state.Get(key); ok {
				row.Key = old.Key
			}
			it := index.NewBareItem(row)
			if row.Deleted {
				state.Delete(key)
			} else {
				state.Set(it)
			}
			e.ahead = append(e.ahead, it)
			if it.Lease != 0 {
				e.attached.add(it.Lease, index.KeyString(row.Key))
			}
		}
		rev, batch = t.Through, t.Batch
	}
	e.loaded, e.whole = state, true
	r.aheads.Add(1)
	return nil
}

// steady reports whether the index that e was evaluated on showed the committed state throughout: it has not been
// reset, and has not moved past the batch's base to something that another server may have reported.
func (r *replica) steady(e *evaluator) bool {
	if !e.indexed() {
		return true
	}
	at := r.s.index.Position()
	return at.Generation == e.generation && at.Revision <= e.from
}
