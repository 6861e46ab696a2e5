package backend

// SupersededQuery asks which of some rows a later row of the same key supersedes.
type SupersededQuery struct {
	// Rows are the ids of stored rows, in the order in which they were written.
	Rows []RowID
	// Revision is the last one whose rows count: a later row supersedes nothing.
	Revision int64
	// Pin is the id of the pin that the read relies on, see [Shared.Pin]; 0 for none.
	Pin int64
}
