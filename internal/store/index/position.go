package index

import "github.com/sqlstore/sqlstore/backend"

// Position is where an index is at one moment.
type Position struct {
	backend.Clock      // that of the last batch published
	Complete      bool // every live key is in the index
	Generation    int  // changes with each [Index.Reset]
	Keys          int
}

// Position returns where the index is.
func (x *Index) Position() Position {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Position{Clock: x.clock(), Complete: x.complete, Generation: x.generation, Keys: x.tree.Len()}
}

// clock is the index's. Callers hold mu.
func (x *Index) clock() backend.Clock {
	return backend.Clock{Revision: x.rev, Compacted: x.compacted, Epoch: x.epoch}
}

// Complete says whether all live keys are in the index: a key that it does not find then does not exist.
func (x *Index) Complete() bool { return x.Position().Complete }

// CompactedAtZero is what the clock has after a compaction at revision 0, when 0 means none.
const CompactedAtZero = -1

// EtcdCompacted is the clock's compacted revision as etcd counts it: -1 before the first compaction. A compaction at 0
// makes nothing unreadable, but is remembered, and accepted once only.
func EtcdCompacted(compacted int64) int64 {
	switch compacted {
	case 0:
		return -1
	case CompactedAtZero:
		return 0
	}
	return compacted
}
