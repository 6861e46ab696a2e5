package simdb

import (
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// copied returns effects that stay as they are when the caller reuses e: a commit may happen after its client has given
// up.
func copied(e *backend.Effects) *backend.Effects {
	c := *e
	c.Rows = slices.Clone(e.Rows)
	c.Granted, c.Ending, c.Revoked = slices.Clone(e.Granted), slices.Clone(e.Ending), slices.Clone(e.Revoked)
	c.Raised, c.Cleared = slices.Clone(e.Raised), slices.Clone(e.Cleared)
	c.Tokens = slices.Clone(e.Tokens)
	return &c
}

// apply changes st, which is being edited. Errors: [backend.ErrRejected].
func (st *state) apply(e *backend.Effects, now time.Time) error {
	if err := (backend.Settings{MaxRevision: maxRevision}).Holds(e.Revision); err != nil {
		return err
	}
	for _, at := range []time.Time{now.Truncate(time.Millisecond), time.UnixMilli(e.Latest())} {
		if at.After(st.written) {
			st.written = at
		}
	}
	for i := range e.Rows {
		v := &version{Row: e.Rows[i], batch: e.Batch, written: st.written}
		if e.Dated {
			v.written = time.UnixMilli(v.WrittenAt)
		}
		v.WrittenAt = v.written.UnixMilli()
		if v.Deleted {
			v.Value = nil
		} else if v.Value == nil {
			v.Value = []byte{}
		}
		if _, twice := st.rows.Set(v); twice {
			return fmt.Errorf("%w: row %d.%d exists", backend.ErrRejected, v.ModRevision, v.Ordinal)
		}
		st.keys.Set(v)
		st.bytes += v.size()
	}
	for _, id := range e.Ending {
		if l, ok := st.leases.Get(id); ok {
			l.ending = true
			if l.expires.After(now) {
				l.expires = now
			}
			st.leases.Set(id, l)
		}
	}
	for _, id := range e.Revoked {
		st.leases.Delete(id)
	}
	for _, g := range e.Granted {
		if _, twice := st.leases.Set(g.ID, lease{ttl: g.TTL, expires: now.Add(g.TTL)}); twice {
			return fmt.Errorf("%w: lease %d exists", backend.ErrRejected, g.ID)
		}
	}
	st.alarm(e.Raised, e.Cleared)
	if e.Auth != nil {
		st.alarms++
		st.auth.change(e.Auth)
	}
	for _, t := range e.Tokens {
		st.auth.tokens.Set(string(t.Sum[:]), token{t, now.Add(t.TTL)})
	}
	st.move(e)
	return nil
}

// move moves the clock.
func (st *state) move(e *backend.Effects) {
	if c := e.Compacted; c != 0 && (st.clock.Compacted <= 0 || c > st.clock.Compacted) {
		st.clock.Compacted = c
	}
	if e.Revision == st.clock.Revision {
		return
	}
	st.last = &Commit{Rows: e.Rows, Revision: e.Revision, Epoch: st.clock.Epoch, At: time.Now(), Before: st.last}
	st.clock.Revision, st.batch = e.Revision, e.Batch
}

// size is roughly what a row takes on disk.
func (v *version) size() int64 { return 100 + v.Size() }

// raiseEpoch implements [backend.Shared.RaiseEpoch] on a state that is being edited. It reports whether it changed
// anything.
func (st *state) raiseEpoch(known backend.Clock, batch int64) bool {
	clock := st.clock
	if clock.Epoch > known.Epoch {
		return false
	}
	if clock.Epoch == known.Epoch {
		there := st.batchAt(known.Revision)
		if clock.Revision >= known.Revision && (there == 0 || there == batch) {
			return false
		}
	}
	st.clock.Epoch = known.Epoch + 1
	return true
}

// addToken implements [backend.TokenKeys] on a state that is being edited.
func (st *state) addToken(last int64, key []byte, now time.Time) bool {
	highest, _, _ := st.tokens.Max()
	if highest != last {
		return false
	}
	st.tokens.Set(last+1, backend.TokenKey{ID: last + 1, Key: slices.Clone(key), Created: now.Truncate(time.Second)})
	return true
}

func (st *state) dropTokens(below int64) {
	highest, _, _ := st.tokens.Max()
	for _, id := range st.tokens.Keys() {
		if id < below && id < highest {
			st.tokens.Delete(id)
		}
	}
}
