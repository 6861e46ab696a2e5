package postgres

import "sync"

// purgedKeysMost is how many keys fill one of the two maps of purgedKeys.
const purgedKeysMost = 4096

// purgedKeys remembers up to which revisions this process has removed all rows of keys. While somebody holds an old
// snapshot, the index still has the entries of removed rows. A search for what is left of a key that is put and deleted
// again and again would walk all of them in each step.
type purgedKeys struct {
	mu sync.Mutex
	// progress is the one in the database after the step that was added last. If the database has another, then another
	// process has purged, or a crash has brought rows back.
	progress purgeProgress
	// recent and older map keys to revisions. Once recent is full, it replaces older.
	recent, older map[string]int64
}

// purgedStep is a step of a purge, with the keys whose tombstones it removed.
type purgedStep struct {
	before, after purgeProgress
	keys          [][]byte
	revisions     []int64 // of the tombstones
}

// below returns the revisions up to which no row of the keys is left, 0 where that is not known. progress is the one in
// the database.
func (k *purgedKeys) below(progress purgeProgress, keys [][]byte) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	revisions := make([]int64, len(keys))
	if progress != k.progress {
		return revisions
	}
	for i, key := range keys {
		revisions[i] = max(k.recent[string(key)], k.older[string(key)])
	}
	return revisions
}

// add adds a step that is committed.
func (k *purgedKeys) add(s purgedStep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.before != k.progress {
		k.recent, k.older = nil, nil
	}
	k.progress = s.after
	if len(k.recent) >= purgedKeysMost {
		k.recent, k.older = nil, k.recent
	}
	if k.recent == nil {
		k.recent = make(map[string]int64, len(s.keys))
	}
	for i, key := range s.keys {
		k.recent[string(key)] = s.revisions[i] - 1 // the transaction may have put the key again
	}
}
