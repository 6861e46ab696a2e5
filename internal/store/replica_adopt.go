package store

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/store/watch"
)

// adopt publishes what t has beyond the published revision, and takes over the state of its clock. Errors:
// errLostHistory, errReset if the store had to start over from t's clock, errOvertaken, errUnconfirmed, those of the
// backend.
func (r *replica) adopt(ctx context.Context, q question, t *backend.Tail) error {
	if !r.within(t.Origin, max(r.staleness, publishStaleness)) {
		return errUnconfirmed
	}
	superseded, err := r.superseded(ctx, t)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.s.epoch.Load(); {
	case q.epoch < known:
		return errReset // asked before the reset
	case t.Clock.Epoch < known:
		return fmt.Errorf("%w: epoch %d was seen, the database is at %d", errLostHistory, known,
			t.Clock.Epoch)
	case t.Clock.Epoch > known:
		if err := r.reset(ctx, nil); err != nil {
			return err
		}
		return errReset
	case t.Clock.Revision < q.After, t.Base != 0 && t.Base != q.batch:
		return fmt.Errorf("%w: revision %d was seen, the database is at %d", errLostHistory, q.After, t.Clock.Revision)
	}
	rev := r.s.Revision()
	if rev != q.After && t.Origin.Server != r.server {
		return errOvertaken
	}
	if t.Alarms != r.alarms || t.Origin.Server != r.alarmsServer {
		if err := r.loadShared(ctx); err != nil {
			return err
		}
		r.alarms, r.alarmsServer = t.Alarms, t.Origin.Server
	}
	if err := whole(t, q.After, rev); err != nil {
		r.s.cfg.Logger.Warn("this replica has fallen behind a compaction: "+
			"it reads its index anew, and watches below end",
			"revision", rev, "database-revision", t.Clock.Revision, "compacted", t.Clock.Compacted, "reason", err)
		if err := r.reset(ctx, t); err != nil {
			return err
		}
		return errReset
	}
	compacted := int64(0)
	if t.Through >= t.Clock.Revision && t.Through >= rev {
		compacted = t.Clock.Compacted
	}
	if t.Through > rev || t.Through == rev && t.Batch != 0 {
		r.batch = t.Batch
	}
	r.server = t.Origin.Server
	r.publishTail(t, superseded, rev, compacted)
	return nil
}

// loadShared reads what the tail only counts the changes of: alarms, users and roles. Callers hold mu.
func (r *replica) loadShared(ctx context.Context) error {
	ctx = backend.Urgent(ctx)
	if err := r.s.alarms.load(ctx, r.b); err != nil {
		return err
	}
	return r.s.loadAuth(ctx, r.b)
}

// whole returns an error if anything is missing from what t has above rev; t was asked for after the revision after.
func whole(t *backend.Tail, after, rev int64) error {
	if t.Purged > after+1 && t.Clock.Revision > after {
		return fmt.Errorf("rows up to revision %d may have been removed", t.Purged)
	}
	next := after + 1
	for i := range t.Changes {
		switch r := t.Changes[i].Row.ModRevision; r {
		case next - 1: // another row of the same revision
		case next:
			next++
		default:
			return fmt.Errorf("revision %d is missing", next)
		}
	}
	if t.Through > rev && next != t.Through+1 {
		return fmt.Errorf("revisions from %d to %d are missing", next, t.Through)
	}
	return nil
}

// publishTail makes the changes of t above rev visible. Callers hold mu.
func (r *replica) publishTail(t *backend.Tail, superseded map[int]*index.Item, rev, compacted int64) {
	s := r.s
	var rows, prevs []*index.Item
	before := map[string]*index.Item{} // newest row per key of the revisions published here
	var fx backend.Effects
	s.index.View(func(known *index.Tree, complete bool) {
		for i := 0; i < len(t.Changes); {
			first := i
			for i < len(t.Changes) && t.Changes[i].Row.ModRevision == t.Changes[first].Row.ModRevision {
				i++
			}
			if t.Changes[first].Row.ModRevision <= rev {
				continue
			}
			began := len(rows)
			for j := first; j < i; j++ {
				row := t.Changes[j].Row
				key := index.KeyString(row.Key)
				prev, ok := before[key]
				if !ok {
					prev, _ = known.Get(key)
				}
				if prev != nil {
					row.Key = prev.Key // all versions of a key share its bytes
				}
				if prev == nil && !ok && !complete {
					prev = superseded[j]
				}
				if prev != nil && prev.Deleted || row.PrevRevision == 0 {
					prev = nil // the key was deleted before, perhaps by the same transaction
				}
				rows, prevs = append(rows, index.NewItem(row)), append(prevs, prev)
				fx.Rows = append(fx.Rows, row)
			}
			for _, it := range rows[began:] {
				before[index.KeyString(it.Key)] = it
			}
		}
	})
	moved := compacted != 0 && index.EtcdCompacted(compacted) > index.EtcdCompacted(s.compacted())
	if !moved {
		compacted = 0
	}
	if len(rows) == 0 && !moved {
		return
	}
	through := max(rev, t.Through)
	r.adopted.Add(uint64(through - rev))
	s.quota.wrote(&fx)
	s.index.Apply(rows, through, compacted)
	s.hub.Publish(rows, prevs, through, compacted)
}

// superseded reads the rows that those of t supersede and that watchers are shown, for an index that may not have them.
func (r *replica) superseded(ctx context.Context, t *backend.Tail) (map[int]*index.Item, error) {
	var out map[int]*index.Item
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.Prev == nil {
			continue
		}
		it, err := watch.Superseded(ctx, r.s.backend, c, t.Clock.Epoch)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[int]*index.Item{}
		}
		out[i] = it
	}
	return out, nil
}
