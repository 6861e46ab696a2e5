package store

// ReplicaStats counts, since the start, what keeping in step with other replicas took.
type ReplicaStats struct {
	// Asked counts questions for what others wrote, those that came with a batch left out; Hinted the hints of the
	// database that announced something new; Adopted the revisions that came from the database: those of others, and
	// the few of our own that the question found before the batch that wrote them had its answer.
	Asked, Hinted, Adopted uint64
	// Ahead counts the batches that were evaluated before all that others had committed was published. Again counts
	// those that took the clock more than once, as the store started anew or others had committed more than is looked
	// at while the clock is held.
	Ahead, Again uint64
	// Confirmed counts the commits that were made so that reads could rely on their server, as none of late did.
	Confirmed uint64
}

// ReplicaStats returns what keeping in step with other replicas took; ok is false where there can be none.
func (s *Store) ReplicaStats() (stats ReplicaStats, ok bool) {
	r := s.replica
	if r == nil {
		return stats, false
	}
	return ReplicaStats{
		Asked: r.asked.Load(), Hinted: r.hinted.Load(), Adopted: r.adopted.Load(), Ahead: r.aheads.Load(),
		Again:     r.again.Load(),
		Confirmed: r.confirmed.Load(),
	}, true
}
