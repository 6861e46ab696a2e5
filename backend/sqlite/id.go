package sqlite

// A row's id in the table combines its revision and its ordinal in one number, so that rows are stored in the order in
// which they were written and can be found by their identity without a separate index. 43 bits remain for revisions: at
// 10,000 transactions per second they last for 27 years.
const (
	ordinalBits = 20 // as in the schema
	maxOrdinal  = 1<<ordinalBits - 1
	maxRevision = 1<<(63-ordinalBits) - 1
	// lastRevision is the highest one of a commit. Reads and purges need the ids of the next.
	lastRevision = maxRevision - 1
)

// valid reports whether a row can have this identity.
func valid(revision int64, ordinal int32) bool {
	return revision >= 0 && revision <= maxRevision && ordinal >= 0 && ordinal <= maxOrdinal
}

// rowID returns the id of a row.
func rowID(revision int64, ordinal int32) int64 { return revision<<ordinalBits | int64(ordinal) }

// firstID returns the lowest id that a row of the revision can have.
func firstID(revision int64) int64 { return rowID(min(max(revision, 0), maxRevision), 0) }

// revisionOf returns the revision of the row with that id.
func revisionOf(id int64) int64 { return id >> ordinalBits }

// ordinalOf returns the ordinal of the row with that id.
func ordinalOf(id int64) int32 { return int32(id & maxOrdinal) }
