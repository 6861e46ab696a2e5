package index

import "github.com/sqlstore/sqlstore/backend"

// Position describes an index at one moment.
type Position struct {
	backend.Clock      // of the last published batch
	Complete      bool // every live key is in the index
	Generation    int  // changes with each [Index.Reset]
	Keys          int
}

// Position returns the current position of the index.
func (x *Index) Position() Position {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Position{Clock: x.clock(), Complete: x.complete, Generation: x.generation, Keys: x.tree.Len()}
}

// clock returns the index's clock. Callers hold mu.
func (x *Index) clock() backend.Clock {
	return backend.Clock{Revision: x.rev, Compacted: x.compacted, Epoch: x.epoch}
}

// Complete reports whether all live keys are in the index. If so, a key that it does not find does not exist.
func (x *Index) Complete() bool { return x.Position().Complete }

// CompactedAtZero is the clock's compacted revision after a compaction at revision 0, because 0 means no compaction.
const CompactedAtZero = -1

// EtcdCompacted converts the clock's compacted revision to etcd's: -1 before the first compaction. A compaction at 0
// makes nothing unreadable, but is remembered, and accepted only once.
func EtcdCompacted(compacted int64) int64 {
	switch compacted {
	case 0:
		return -1
	case CompactedAtZero:
		return 0
	}
	return compacted
}
