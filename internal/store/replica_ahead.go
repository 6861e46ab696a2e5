package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// lockedBytes is how much of what others wrote is read, values included, while the clock is held.
	lockedBytes = 256 << 10
	// aheadRows and aheadBytes bound one statement for what more there is, aheadMax all of it: beyond it the clock is
	// given back.
	aheadRows  = 10_000
	aheadBytes = 4 << 20
	aheadMax   = 200_000
)

var errBehind = errors.New("this replica is far behind the others")

// ahead brings the committed state that e evaluates on up to the clock, which tx holds, where the index is not there
// yet: others have written more than came with the clock. It reads no values; they are read before the batch is
// published. Errors: errBehind, errReset, errOvertaken, errLostHistory, those of the backend.
func (f *follower) ahead(ctx context.Context, tx backend.SharedTx, e *evaluator) error {
	f.mu.Lock()
	state, rev, ok := f.s.index.fork(e.from)
	batch, epoch, server := f.batch, f.epoch.Load(), f.server
	e.resets = f.s.index.loading()
	f.mu.Unlock()
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
			return errBehind // by a compaction, or over revisions without rows
		}
		for i := range t.Changes {
			r := t.Changes[i].Row
			key := keyString(r.Key)
			if old, ok := state.Get(key); ok {
				r.Key = old.Key
			}
			it := &item{Row: r, slot: -1}
			if r.Deleted {
				state.Delete(key)
			} else {
				state.Set(keyString(r.Key), it)
			}
			e.ahead = append(e.ahead, it)
			if it.Lease != 0 {
				e.attached.add(it.Lease, keyString(r.Key))
			}
		}
		rev, batch = t.Through, t.Batch
	}
	e.loaded, e.whole = state, true
	f.aheads.Add(1)
	return nil
}

// steady says whether the index that e was evaluated on has told of the committed state all the while: it has not been
// emptied, and what another server may have told of lies not above it.
func (f *follower) steady(e *evaluator) bool {
	if !e.indexed() {
		return true
	}
	x := f.s.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.resets == e.resets && x.rev <= e.from
}
